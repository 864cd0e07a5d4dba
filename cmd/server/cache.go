package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

type cacheCmd struct {
	Clear cacheClearCmd `cmd:"" help:"Forget the answers that a running gateway keeps to give them again."`
}

type cacheClearCmd struct {
	URL           string `name:"url" env:"BREAKWATER_URL" default:"http://127.0.0.1:8081" placeholder:"URL" help:"Where the gateway's admin_listen is (${default}). An operator token is read from BREAKWATER_TOKEN."`
	Configuration string `placeholder:"NAME" help:"Only the answers of this configuration; without it, all."`
}

// Run forgets answers and prints how many there were.
func (c cacheClearCmd) Run(ctx context.Context, std streams) error {
	client, err := gatewayFlags{URL: c.URL}.client()
	if err != nil {
		return err
	}
	deleted, err := client.clearCache(ctx, c.Configuration)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.Out, "%d answer(s) forgotten\n", deleted)
	return err
}

// clearCache forgets the answers of a configuration, or of all when it is empty.
func (c *gatewayClient) clearCache(ctx context.Context, configuration string) (int, error) {
	path := "/api/v1/response-cache"
	if configuration != "" {
		path += "?" + url.Values{"configuration": {configuration}}.Encode()
	}
	answer, err := c.ask(ctx, http.MethodDelete, path, nil)
	if err != nil {
		return 0, c.explain(err)
	}
	var told struct{ Deleted *int }
	if err := json.Unmarshal(answer, &told); err != nil || told.Deleted == nil {
		return 0, c.strange()
	}
	return *told.Deleted, nil
}
