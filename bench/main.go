// Command bench measures what the gateway costs. In one run it starts an
// instant upstream, a plain reverse proxy and the gateway with everything on,
// each as a process of its own on a loopback port of the kernel's choice, sends
// them the same calls in turns, and prints a Markdown table. Every answer is
// compared byte by byte, and every call must have its record in the database.
// Another run does the same with gateways that differ in one feature each.
//
// It relies on /proc, so it measures on Linux only.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

type cli struct {
	Run      runCmd      `cmd:"" default:"withargs" help:"Measure, and print a Markdown table."`
	Features featuresCmd `cmd:"" help:"Measure what keys, limits, replays and cached answers cost, and print a Markdown table."`
	Upstream upstreamCmd `cmd:"" hidden:"" help:"Be the upstream."`
	Proxy    proxyCmd    `cmd:"" hidden:"" help:"Be the reverse proxy."`
	Gateway  gatewayCmd  `cmd:"" hidden:"" help:"Be the gateway, and write profiles at the end."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	parsed := kong.Parse(&cli{},
		kong.Name("bench"),
		kong.Description("Measures the gateway beside a plain reverse proxy."),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	parsed.FatalIfErrorf(parsed.Run())
}
