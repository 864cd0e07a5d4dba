package api

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"
)

// model is one entry of GET /v1/models in OpenAI's shape.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"` // when the gateway loaded it, Unix seconds
	OwnedBy string `json:"owned_by"`
}

type modelList struct {
	Object string  `json:"object"`
	Data   []model `json:"data"`
}

// listModels serves GET /v1/models: the configurations and the direct targets
// that the caller may name.
func (d *data) listModels(c echo.Context) error {
	snapshot, caller := d.Snapshot(), callerOf(c)
	list := modelList{Object: "list", Data: []model{}}
	for _, name := range snapshot.names() {
		if caller.May(name) {
			list.Data = append(list.Data, modelOf(snapshot, name))
		}
	}
	return sendJSON(c, http.StatusOK, list)
}

// getModel serves GET /v1/models/{id}; an id may hold slashes, as they are or
// percent-encoded.
func (d *data) getModel(c echo.Context) error {
	snapshot, caller := d.Snapshot(), callerOf(c)
	name, err := pathParam(c, "*")
	if err != nil {
		return err
	}
	if _, ok := snapshot.Routes[name]; !ok {
		return modelNotFound(name)
	}
	if !caller.May(name) {
		return modelNotAllowed(caller.Name, name)
	}
	return sendJSON(c, http.StatusOK, modelOf(snapshot, name))
}

func modelOf(snapshot *Snapshot, name string) model {
	owner := "breakwater"
	if snapshot.Routes[name].Configuration == "" {
		owner, _, _ = strings.Cut(name, "/")
	}
	return model{ID: name, Object: "model", Created: snapshot.LoadedAt.Unix(), OwnedBy: owner}
}

// pathParam returns a path parameter in its plain spelling: the router matches
// the path as it was sent whenever that holds encoded characters.
func pathParam(c echo.Context, name string) (string, error) {
	value := c.Param(name)
	if c.Request().URL.RawPath == "" {
		return value, nil
	}
	plain, err := url.PathUnescape(value)
	if err != nil {
		return "", unknownURL(c.Request())
	}
	return plain, nil
}
