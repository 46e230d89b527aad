package meterline

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// RateLimit is how the caller stands under one limit of its plan, as of the answer it came with.
type RateLimit struct {
	Name      string        // "requests" or "events"
	Quota     int64         // units in Window
	Window    time.Duration // over which the quota fills up evenly
	Remaining int64         // units left
	Reset     time.Duration // until the whole quota is there again; after a 429, until one unit is
}

// One member of a structured list: a quoted name and its parameters.
var limitMember = regexp.MustCompile(`"([^"]*)"((?:\s*;\s*[a-z]+=\d+)*)`)

// RateLimits reads the headers RateLimit-Policy and RateLimit of an answer: the limits of the plan
// of the API key, in the server's order. It is empty where there are none.
//
//	answered, err := client.ListMetersWithResponse(ctx, nil)
//	for _, limit := range meterline.RateLimits(answered.HTTPResponse.Header) { ... }
func RateLimits(header http.Header) []RateLimit {
	left := membersOf(header.Values("RateLimit"))
	var limits []RateLimit
	for _, policy := range membersOf(header.Values("RateLimit-Policy")) {
		for _, state := range left {
			if state.name == policy.name {
				limits = append(limits, RateLimit{
					Name:      policy.name,
					Quota:     policy.of["q"],
					Window:    time.Duration(policy.of["w"]) * time.Second,
					Remaining: state.of["r"],
					Reset:     time.Duration(state.of["t"]) * time.Second,
				})
			}
		}
	}
	return limits
}

type limitOf struct {
	name string
	of   map[string]int64
}

func membersOf(values []string) []limitOf {
	var members []limitOf
	for _, found := range limitMember.FindAllStringSubmatch(strings.Join(values, ","), -1) {
		of := map[string]int64{}
		for _, parameter := range strings.Split(found[2], ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
			if number, err := strconv.ParseInt(value, 10, 64); err == nil {
				of[name] = number
			}
		}
		members = append(members, limitOf{found[1], of})
	}
	return members
}
