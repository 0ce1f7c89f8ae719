package bench

import (
	"context"
	"fmt"
	"slices"
)

// overLinks measures connections, round trips and downloads where both ends are behind slow
// links: of what is over Chive's relays, and of a plain connection.
func overLinks(ctx context.Context, w *world) (out []Row, err error) {
	var sites []*site
	for _, k := range []Kind{Clear, Chive, Tor} {
		if !slices.Contains(w.cfg.Sizes.Kinds, k) {
			continue
		}
		s, err := w.linked(ctx, k)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
		sites = append(sites, s)
	}
	sizes := w.cfg.Sizes
	firsts, later := max(sizes.Firsts/2, 1), max(sizes.Connections/5, 2)
	rows, err := connections(ctx, w, tableLinks, sites, firsts, later)
	if err != nil {
		return nil, err
	}
	out = append(out, rows...)
	if rows, err = pingPong(ctx, w, tableLinks, sites, max(sizes.Rounds/10, 10)); err != nil {
		return nil, err
	}
	out = append(out, rows...)
	if rows, err = downloads(ctx, w, tableLinks, sites, sizes.LinkBytes, max(sizes.Downloads/2, 1)); err != nil {
		return nil, err
	}
	return append(out, rows...), nil
}
