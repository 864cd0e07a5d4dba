package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/breakwater-llm/breakwater/internal/keys"
	"github.com/breakwater-llm/breakwater/internal/llm"
)

// KeyStore mints, lists and revokes API keys.
type KeyStore interface {
	Create(ctx context.Context, wanted keys.Wanted) (keys.Key, string, error)
	List(ctx context.Context) ([]keys.Key, error)
	Revoke(ctx context.Context, named string) (key keys.Key, already bool, err error)
}

// keyView is an API key as operators see it.
type keyView struct {
	ID             string     `json:"id"`
	Name           string     `json:"name"`
	Owner          string     `json:"owner"`
	Prefix         string     `json:"prefix"`
	State          string     `json:"state"`
	Configurations []string   `json:"configurations"` // null = everything
	Limits         llm.Limits `json:"limits"`
	CreatedAt      time.Time  `json:"created_at"`
	ExpiresAt      *time.Time `json:"expires_at"`
	RevokedAt      *time.Time `json:"revoked_at"`
}

// mintedKey is a key with its text, which is told once.
type mintedKey struct {
	Key string `json:"key"`
	keyView
}

type keyList struct {
	Keys []keyView `json:"keys"`
}

func viewKey(k keys.Key, now time.Time) keyView {
	return keyView{
		ID: k.ID.String(), Name: k.Name, Owner: k.Owner, Prefix: k.Prefix, State: k.State(now),
		Configurations: k.Configurations, Limits: k.Limits,
		CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt,
	}
}

// listKeys serves GET /api/v1/keys: every key there ever was, oldest first.
func (a *admin) listKeys(c echo.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	all, err := a.Keys.List(c.Request().Context())
	if err != nil {
		return err
	}
	now := time.Now()
	list := keyList{Keys: make([]keyView, 0, len(all))}
	for _, key := range all {
		list.Keys = append(list.Keys, viewKey(key, now))
	}
	return sendJSON(c, http.StatusOK, list)
}

// wantedKey is the body of POST /api/v1/keys.
type wantedKey struct {
	Name           string                    `json:"name"`
	Owner          string                    `json:"owner"`
	Configurations []string                  `json:"configurations"` // absent or null = everything
	Limits         map[string]jsontext.Value `json:"limits"`
	TTLMS          int64                     `json:"ttl_ms"` // 0 = for ever
}

// createKey serves POST /api/v1/keys. Its answer is the only one that holds a
// key's text.
func (a *admin) createKey(c echo.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	var body wantedKey
	if err := decode(c, &body); err != nil {
		return err
	}
	wanted, err := body.wanted()
	if err != nil {
		return err
	}
	key, text, err := a.Keys.Create(c.Request().Context(), wanted)
	switch {
	case errors.Is(err, keys.ErrInvalidKey):
		return invalidValue("", err.Error())
	case errors.Is(err, keys.ErrNameTaken):
		return nameTaken(wanted.Name)
	case err != nil:
		return err
	}
	return sendJSON(c, http.StatusCreated, mintedKey{Key: text, keyView: viewKey(key, time.Now())})
}

func (w wantedKey) wanted() (keys.Wanted, error) {
	const longest = int64(100 * 365 * 24 * time.Hour / time.Millisecond)
	if w.TTLMS < 0 || w.TTLMS > longest {
		return keys.Wanted{}, invalidValue("ttl_ms", "ttl_ms must be from 0 (for ever) to "+strconv.FormatInt(longest, 10)+" (100 years).")
	}
	wanted := keys.Wanted{Name: w.Name, Owner: w.Owner, Configurations: w.Configurations, TTL: time.Duration(w.TTLMS) * time.Millisecond}
	for name, value := range w.Limits {
		if value.Kind() == 'n' {
			continue // null = no limit
		}
		number := string(value)
		if text, err := jsontext.AppendUnquote(nil, value); err == nil {
			number = string(text) // a cost may be text, so that no client rounds it
		}
		if err := keys.SetLimit(&wanted.Limits, name, number); err != nil {
			return keys.Wanted{}, invalidValue("limits", err.Error()+".")
		}
	}
	return wanted, nil
}

// revokeKey serves POST /api/v1/keys/{id}/revoke: the key as it is now.
func (a *admin) revokeKey(c echo.Context) error {
	if err := noQuery(c); err != nil {
		return err
	}
	id, err := pathParam(c, "id")
	if err != nil {
		return err
	}
	var none struct{}
	if err := decodeIfAny(c, &none); err != nil {
		return err
	}
	key, _, err := a.Keys.Revoke(c.Request().Context(), id)
	switch {
	case errors.Is(err, keys.ErrNotFound):
		return notFound("No API key has this id or prefix; GET /api/v1/keys lists those there are.")
	case err != nil:
		return err
	}
	return sendJSON(c, http.StatusOK, viewKey(key, time.Now()))
}
