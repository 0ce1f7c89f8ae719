package main

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestWrongNumbers: numbers that cannot be meant are refused, and not replaced by others.
func TestWrongNumbers(t *testing.T) {
	for args, want := range map[string]string{
		"up --authorities -3":          "negative",
		"up --relays -3":               "negative",
		"up --exits -3":                "negative",
		"up --voting-interval 0s":      "above 0",
		"up --voting-interval 9s":      "from 10s",
		"up --voting-interval 10500ms": "whole seconds",
		"bench flood --before 0s":      "above 0",
		"bench flood --during -1s":     "negative",
		"bench onion --rounds -1":      "--rounds: -1 is negative",
		"bench relay --streams 1,-5":   "--streams: -5 is negative",
		"up --socks nonsense":          "--socks: ",
		"up --tor /dev/null":           "no program",
		"up --dir /dev/null":           "no directory",
		"bench flood --after 0s":       "above 0",
		"bench flood --memory 0":       "above 0",
		"bench relay --limit 0s":       "above 0",
		"bench control --rate 0":       "above 0",
		"bench control --rounds -1":    "negative",
		"bench circuit --count 0":      "are possible",
		"bench fte --pings 0":          "above 0",
		"bench circuit --hops 9":       "are possible",
		"experiment run h --at-once 0": "below what is possible",
		"experiment run h h":           "two experiments are called h01-z1-up",
		"experiment run h13":           "no shipped experiment",
		"experiment compare . .":       "experiment.toml",
	} {
		root := rootCommand()
		root.SetArgs(strings.Fields(args))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // what is not refused would go on
		err := root.ExecuteContext(ctx)
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
