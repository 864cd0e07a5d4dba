package pricelist

import (
	"net/url"
	"strings"
)

// vendor is a company that serves models under its own list of prices, as the
// published lists call it.
type vendor struct {
	host     string // of its own API
	name     string // models.dev's name, and ours
	lite     string // LiteLLM's name
	modelsAt string // what its model names may begin with, and lists leave out
}

// vendors are known by the hosts of their own APIs. A model of the same name at
// any other host is somebody else's, at somebody else's price.
var vendors = []vendor{
	{host: "api.openai.com", name: "openai", lite: "openai"},
	{host: "api.anthropic.com", name: "anthropic", lite: "anthropic"},
	{host: "generativelanguage.googleapis.com", name: "google", lite: "gemini", modelsAt: "models/"},
	{host: "api.mistral.ai", name: "mistral", lite: "mistral"},
	{host: "api.groq.com", name: "groq", lite: "groq"},
	{host: "api.deepseek.com", name: "deepseek", lite: "deepseek"},
	{host: "api.cerebras.ai", name: "cerebras", lite: "cerebras"},
	{host: "api.x.ai", name: "xai", lite: "xai"},
	{host: "api.together.xyz", name: "togetherai", lite: "together_ai"},
	{host: "api.fireworks.ai", name: "fireworks-ai", lite: "fireworks_ai"},
	{host: "api.perplexity.ai", name: "perplexity", lite: "perplexity"},
	{host: "api.deepinfra.com", name: "deepinfra", lite: "deepinfra"},
	{host: "api.moonshot.ai", name: "moonshotai", lite: "moonshot"},
	{host: "openrouter.ai", name: "openrouter", lite: "openrouter"},
}

// VendorOf returns the name of the vendor whose own API has a base URL, or
// nothing.
func VendorOf(baseURL string) string {
	host := hostOf(baseURL)
	for _, v := range vendors {
		if v.host == host {
			return v.name
		}
	}
	return ""
}

// hostOf returns the host of a URL in the form in which hosts are compared; empty
// where there is none, or where it is asked at another port than its own.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Port() != "" && u.Port() != "443" {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}

// vendorNamed returns what is known of a vendor by its models.dev or LiteLLM
// name; a vendor that is not known has one name everywhere.
func vendorNamed(name string) vendor {
	for _, v := range vendors {
		if v.name == name || v.lite == name {
			return v
		}
	}
	return vendor{name: name, lite: name}
}
