package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/chain"
	"sidequest/domain"
	"sidequest/mcp"
	"sidequest/migrations"
	"sidequest/postgres"
	"sidequest/secret"
)

// A deployment is what a development process leaves in its data folder, so that
// commands and further copies find it.
type deployment struct {
	PublicURL   string `json:"publicUrl"`
	DatabaseURL string `json:"databaseUrl"`
	NATSURL     string `json:"natsUrl"`
	KEKFile     string `json:"kekFile"`
	WakePrefix  string `json:"wakePrefix"`

	Dir string `json:"-"` // the data folder it was found in, "" for none
}

const deploymentFile = "deployment.json"

// dev runs everything on this machine: Postgres in a private cluster, NATS inside
// the process, the server. It goes on from what an earlier run left, however that
// ended. Where a copy is running on the data folder already, it joins that one.
func dev(ctx context.Context, _ []string, stdout, stderr io.Writer) error {
	dir, err := filepath.Abs(dataFolder())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("make the data folder: %w", err)
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: logLevel()}))
	cfg, err := loadConfig(os.Getenv, false)
	if err != nil {
		return err
	}
	cluster := &postgres.Cluster{Dir: dir, Log: log}
	fmt.Fprintln(stdout, "starting Postgres …")
	if err := cluster.Start(ctx); err != nil {
		return err
	}
	defer stopCluster(ctx, cluster, log)
	if err := migrateURL(ctx, cluster.URL(postgres.Database, postgres.Owner)); err != nil {
		return err
	}
	ns, d, err := startNATS(ctx, dir)
	if err != nil {
		return err
	}
	first := ns != nil
	if first {
		defer ns.stop()
		d = &deployment{NATSURL: ns.url}
	}
	if err := d.complete(ctx, &cfg, dir, cluster, first); err != nil {
		return err
	}
	return run(ctx, cfg, log, func(addr string) { banner(stdout, addr, dir, d, !first) })
}

// stopCluster ends the use of a private cluster. The last to do so stops it.
func stopCluster(ctx context.Context, cluster *postgres.Cluster, log *slog.Logger) {
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err := cluster.Stop(bye); err != nil {
		log.Warn("Postgres did not stop", "error", err)
	}
}

// development says whether the deployment was found in a data folder that has a
// Postgres of its own.
func (d *deployment) development() bool {
	found, err := filepath.Glob(filepath.Join(d.Dir, "postgres*"))
	return d.Dir != "" && err == nil && len(found) > 0
}

// complete fills in the configuration of a development process, and leaves a
// note of it if this is the first on the folder.
func (d *deployment) complete(ctx context.Context, cfg *config, dir string, cluster *postgres.Cluster, first bool) error {
	d.KEKFile = filepath.Join(dir, "kek.json")
	if _, err := os.Stat(d.KEKFile); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, deploymentFile)); err == nil {
			return fmt.Errorf("the key file %s is gone, and without it nothing that was encrypted here can be read: put it back, or begin anew by removing %s", d.KEKFile, dir)
		}
	}
	if _, err := secret.LoadOrCreate(d.KEKFile); err != nil {
		return err
	}
	d.DatabaseURL, d.WakePrefix = cluster.URL(postgres.Database, postgres.Program), wakePrefix
	if first {
		d.PublicURL = "http://" + publicHost(cfg.Addr)
		if cfg.PublicURL != "" {
			d.PublicURL = cfg.PublicURL
		}
		if err := d.save(dir); err != nil {
			return err
		}
	}
	arbitrator, err := d.arbitrator(ctx)
	if err != nil {
		return err
	}
	cfg.PublicURL, cfg.DatabaseURL, cfg.NATSURL, cfg.KEKFile, cfg.WakePrefix = d.PublicURL, d.DatabaseURL, d.NATSURL, d.KEKFile, d.WakePrefix
	cfg.Network = mcp.Network{Name: domain.NetworkTest, ChainID: chain.DevelopmentID}
	cfg.Tokens = []domain.Token{{Address: domain.Address(chain.TestUSD().Hex()), Symbol: "tUSD", Decimals: chain.TestUSDDecimals}}
	cfg.Arbitrator = arbitrator
	cfg.Development = true
	return nil
}

// arbitrator returns the wallet of the operator who rules on disputes in
// development.
func (d *deployment) arbitrator(ctx context.Context) (domain.Address, error) {
	keys, err := secret.Load(d.KEKFile)
	if err != nil {
		return "", err
	}
	pool, err := pgxpool.New(ctx, d.DatabaseURL)
	if err != nil {
		return "", fmt.Errorf("open the database: %w", err)
	}
	defer pool.Close()
	return managedWallet(ctx, secret.Vault{Pool: pool, Keys: keys}, "operator:arbitrator")
}

// publicHost names a host that a browser on this machine can open.
func publicHost(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

func (d *deployment) save(dir string) error {
	raw, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, deploymentFile)
	if err := os.WriteFile(path+".new", raw, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", deploymentFile, err)
	}
	return os.Rename(path+".new", path)
}

// loadDeployment returns what the development process on the data folder left.
func loadDeployment() (deployment, error) {
	dir, err := filepath.Abs(dataFolder())
	if err != nil {
		return deployment{}, err
	}
	raw, err := os.ReadFile(filepath.Join(dir, deploymentFile))
	if errors.Is(err, fs.ErrNotExist) {
		return deployment{}, fmt.Errorf("this command works beside a development server only, and there is none in %s: start one with `make run`", dir)
	}
	if err != nil {
		return deployment{}, fmt.Errorf("read %s: %w", deploymentFile, err)
	}
	var d deployment
	if err := json.Unmarshal(raw, &d); err != nil {
		return deployment{}, fmt.Errorf("read %s: %w", deploymentFile, err)
	}
	d.Dir = dir
	return d, nil
}

// migrateURL brings the database up to date as the owner of its tables.
func migrateURL(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect to migrate: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return migrations.Up(ctx, conn)
}

func banner(w io.Writer, addr, dir string, d *deployment, joined bool) {
	fmt.Fprintf(w, "\n  Sidequest is running on http://%s\n\n", publicHost(addr))
	if joined {
		fmt.Fprintf(w, "  a further copy of the one at %s: same database, same tokens\n", d.PublicURL)
	}
	fmt.Fprintf(w, `  MCP endpoint   %[1]s/mcp
  tools by REST  %[1]s/api/whoami
  your pages     %[1]s/ for the operator: sign in, connections, approvals
  health         http://%[2]s/health   metrics http://%[2]s/metrics
  data           %[3]s

  Next:  bin/sidequest token --agent ann     a token for an agent, made if new
         make demo                           watch two agents strike a deal
         SIDEQUEST_ADDR=127.0.0.1:8081 make run    a second copy beside this one
  Stop with Ctrl-C.

`, d.PublicURL, publicHost(addr), dir)
}
