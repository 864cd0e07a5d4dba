package config

import "time"

// The modes of auth.
const (
	AuthKeys = "keys" // callers have API keys
	AuthOpen = "open" // every caller is let in; the data plane is then held to loopback
)

// Auth says who may call.
type Auth struct {
	Mode      string        `yaml:"mode" check:"oneof=keys|open" change:"restart" doc:"keys = callers send an API key, which breakwater keys create mints; open = every caller is let in, on a loopback listener only."`
	CacheTTL  time.Duration `yaml:"cache_ttl" check:"over=0s" doc:"A verified key is not looked up again for this long; a revocation counts within a second all the same."`
	OutageTTL time.Duration `yaml:"outage_ttl" check:"min=0s" doc:"How long after its last look-up a key stays valid while the database is away."`
}

func defaultAuth() Auth {
	return Auth{Mode: AuthKeys, CacheTTL: time.Minute, OutageTTL: 24 * time.Hour}
}

func (a Auth) check(r *report) {
	if r.sound("auth.cache_ttl", "auth.outage_ttl") && a.OutageTTL < a.CacheTTL {
		r.fault("auth.outage_ttl", "is less than auth.cache_ttl, for which a key is valid without a look-up", "give it at least "+a.CacheTTL.String())
	}
}
