package postgres

import (
	"context"
	"fmt"
)

// Crash ends the server without any farewell, as if it had been killed, and starts
// it again: every connection is lost, and it recovers from its log. For tests.
func (c *Cluster) Crash(ctx context.Context) error {
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.run(ctx, "pg_ctl", "stop", "-D", dataFolder, "-m", "immediate", "-w", "-t", "60"); err != nil {
		return fmt.Errorf("crash postgres: %w", err)
	}
	return c.startServer(ctx)
}
