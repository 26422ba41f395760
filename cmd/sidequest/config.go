package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/jackc/pgx/v5/pgxpool"

	"sidequest/domain"
	"sidequest/mcp"
	"sidequest/mcp/delivery"
	"sidequest/oauth"
	"sidequest/oauth/signin"
	"sidequest/secret"
	"sidequest/webhook"
)

// A config is everything a running process needs to know. In production it comes
// from the environment alone.
type config struct {
	Addr        string // to listen on
	PublicURL   string // origin under which clients reach all processes, no slash at the end
	DatabaseURL string // as the program's own role
	NATSURL     string
	Replicas    int // of the copy of the log, in a NATS cluster
	KEKFile     string
	WakePrefix  string
	Network     mcp.Network
	Tokens      []domain.Token // of the board main
	Arbitrator  domain.Address // of the board main
	Proxies     []netip.Prefix // trusted to say who the client is
	Limits      mcp.Limits
	Codes       delivery.Codes // of the events extension

	Repository    string // address of the source code, "" for none to be named
	RegistryProof string // line for the MCP Registry, "" for none
	SignIn        []signin.Provider
	Wallets       bool          // may sign operators in
	Development   bool          // brings a sign-in without passwords
	Outside       oauth.Outside // set by tests alone
	Webhooks      webhook.Outside
}

// wakePrefix begins the NATS subjects of wake-ups, the same in all processes.
const wakePrefix = "sidequest"

const publicURL = "SIDEQUEST_PUBLIC_URL"

// A setting is one variable of the environment: what it is for, and how it is
// read. This table is the only list of them; the README's is made from it.
type setting struct {
	name, help, fallback string
	required             bool // by serve
	read                 func(c *config, value string) error
}

func settings() []setting {
	limits := mcp.StandardLimits()
	return []setting{
		{"SIDEQUEST_ADDR", "address to listen on", "127.0.0.1:8080", false, readAddr},
		{publicURL, "origin under which clients reach the server, such as https://market.example", "", true, readPublicURL},
		{"SIDEQUEST_DATABASE_URL", "Postgres, as a member of the role sidequest_app", "", true, readDatabaseURL},
		{"SIDEQUEST_NATS_URL", "NATS with JetStream", "", true, readNATSURL},
		{"SIDEQUEST_NATS_REPLICAS", "how many nodes of a NATS cluster keep the copy of the log: 1, 3 or 5", "1", false, readReplicas},
		{"SIDEQUEST_KEK_FILE", "file of the key-encryption keys, mode 0600", "", true, readKEKFile},
		{"SIDEQUEST_NETWORK", "test or main", "", true, readNetwork},
		{"SIDEQUEST_CHAIN_ID", "chain id of that network", "", true, readChainID},
		{"SIDEQUEST_REWARD_TOKENS", "tokens of the board main: ADDRESS:SYMBOL:DECIMALS, separated by commas", "", true, readTokens},
		{"SIDEQUEST_ARBITRATOR", "wallet that rules on disputes of the board main", "", true, readArbitrator},
		{"SIDEQUEST_OIDC_FILE", "file of the OpenID providers that operators sign in with, mode 0600", "", false, readSignIn},
		{"SIDEQUEST_WALLET_SIGN_IN", "on or off: whether operators may sign in with a wallet", "on", false, readWallets},
		{"SIDEQUEST_TRUSTED_PROXIES", "networks of proxies whose X-Forwarded-For counts, separated by commas", "", false, readProxies},
		{"SIDEQUEST_EVENT_CODES", "error codes of the events extension: sketch, which clients use today, or sep-3415", "sketch", false, readCodes},
		{"SIDEQUEST_REPOSITORY", "address of the source code, for the server card", "", false, readRepository},
		{"SIDEQUEST_REGISTRY_PROOF", "public line that proves the domain to the MCP Registry: v=MCPv1; k=ed25519; p=…", "", false, readRegistryProof},
		{"SIDEQUEST_WEBHOOK_CA_FILE", "certificates, in PEM, that webhooks trust beside the system's", "", false, readWebhookRoots},
		{"SIDEQUEST_WEBHOOK_LOOPBACK", "on or off: whether webhooks may go to this machine, at any port; for development only", "off", false, readWebhookLoopback},
		{"SIDEQUEST_WRITES_PER_AGENT", "writes of one agent per minute", strconv.Itoa(limits.PerAgent), false, number(func(c *config) *int { return &c.Limits.PerAgent })},
		{"SIDEQUEST_WRITES_PER_IP", "writes from one address per minute", strconv.Itoa(limits.PerIP), false, number(func(c *config) *int { return &c.Limits.PerIP })},
	}
}

// loadConfig reads the environment. With all, what serve requires must be there;
// without, such settings do not count, since a development process has its own.
// The error lists everything that is missing or malformed, not just the first.
func loadConfig(getenv func(string) string, all bool) (config, error) {
	c := config{WakePrefix: wakePrefix, Limits: mcp.Limits{Span: time.Minute}}
	var faults []error
	for _, s := range settings() {
		value := getenv(s.name)
		if value == "" {
			value = s.fallback
		}
		if s.required && !all && s.name != publicURL {
			continue
		}
		if value == "" {
			if s.required && all {
				faults = append(faults, fmt.Errorf("%s is missing: %s", s.name, s.help))
			}
			continue
		}
		if err := s.read(&c, value); err != nil {
			faults = append(faults, fmt.Errorf("%s is malformed: %w", s.name, err))
		}
	}
	if len(faults) > 0 {
		return config{}, fmt.Errorf("the configuration is not complete:\n%w", errors.Join(faults...))
	}
	return c, nil
}

func readAddr(c *config, value string) error {
	if _, _, err := net.SplitHostPort(value); err != nil {
		return errors.New("give HOST:PORT, such as 127.0.0.1:8080, or :PORT for every address of this machine")
	}
	c.Addr = value
	return nil
}

// readDatabaseURL does not repeat what it was given: there may be a password in it.
func readDatabaseURL(c *config, value string) error {
	if _, err := pgxpool.ParseConfig(value); err != nil {
		return errors.New("give a URL such as postgres://USER:PASSWORD@HOST/DATABASE")
	}
	c.DatabaseURL = value
	return nil
}

// readNATSURL does not repeat what it was given: there may be a token in it.
func readNATSURL(c *config, value string) error {
	for part := range strings.SplitSeq(value, ",") {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls" {
			return errors.New("give a URL such as nats://TOKEN@HOST:4222, or several of one cluster, separated by commas")
		}
	}
	c.NATSURL = value
	return nil
}

func readReplicas(c *config, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n != 1 && n != 3 && n != 5 {
		return errors.New("give 1, 3 or 5")
	}
	c.Replicas = n
	return nil
}

func readKEKFile(c *config, value string) error {
	if _, err := secret.Load(value); err != nil {
		return err
	}
	c.KEKFile = value
	return nil
}

func number(field func(*config) *int) func(*config, string) error {
	return func(c *config, value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 {
			return errors.New("give a whole number above zero")
		}
		*field(c) = n
		return nil
	}
}

func readPublicURL(c *config, value string) error {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != value {
		return errors.New("give an origin, such as https://market.example, without a path or a slash at the end")
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return errors.New("use https; http is for loopback addresses only")
	}
	c.PublicURL = value
	return nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func readNetwork(c *config, value string) error {
	if value != domain.NetworkTest && value != domain.NetworkMain {
		return errors.New("give test or main")
	}
	c.Network.Name = value
	return nil
}

func readChainID(c *config, value string) error {
	id, err := strconv.ParseInt(value, 10, 64)
	if err != nil || id < 1 {
		return errors.New("give a whole number above zero")
	}
	c.Network.ChainID = id
	return nil
}

func readTokens(c *config, value string) error {
	for part := range strings.SplitSeq(value, ",") {
		fields := strings.Split(strings.TrimSpace(part), ":")
		if len(fields) != 3 || fields[1] == "" {
			return errors.New("give each token as ADDRESS:SYMBOL:DECIMALS")
		}
		address, err := parseAddress(fields[0])
		if err != nil {
			return err
		}
		decimals, err := strconv.Atoi(fields[2])
		if err != nil || decimals < 0 || decimals > 18 {
			return errors.New("give the decimals of a token as a whole number up to 18")
		}
		c.Tokens = append(c.Tokens, domain.Token{Address: address, Symbol: domain.Foreign(fields[1]), Decimals: decimals})
	}
	return nil
}

func readArbitrator(c *config, value string) (err error) {
	c.Arbitrator, err = parseAddress(value)
	return err
}

// parseAddress reads an address. Where it has letters of both cases these are its
// checksum (EIP-55), and a mistyped one is not let pass.
func parseAddress(value string) (domain.Address, error) {
	digits, found := strings.CutPrefix(value, "0x")
	if !found || !common.IsHexAddress(value) {
		return "", errors.New("give an address of 0x and 40 hex digits")
	}
	address := common.HexToAddress(value).Hex()
	if value != address && strings.ToLower(digits) != digits && strings.ToUpper(digits) != digits {
		return "", errors.New("the address has a wrong checksum (EIP-55); check that it is complete and unchanged")
	}
	return domain.Address(address), nil
}

func readCodes(c *config, value string) error {
	switch value {
	case "sketch":
		c.Codes = delivery.SketchCodes()
	case "sep-3415":
		c.Codes = delivery.SEP3415Codes()
	default:
		return errors.New("give sketch or sep-3415")
	}
	return nil
}

func readRepository(c *config, value string) error {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.Scheme != "https" || u.User != nil {
		return errors.New("give an address such as https://code.example/owner/name")
	}
	c.Repository = value
	return nil
}

// proofShape is a public key: 32 bytes of Ed25519, or a compressed point of P-384.
var proofShape = regexp.MustCompile(`^v=MCPv1; k=(ed25519; p=[A-Za-z0-9+/]{43}=|ecdsap384; p=[A-Za-z0-9+/]{66}==)$`)

// readRegistryProof does not repeat what it was given: somebody may have put the
// private key there.
func readRegistryProof(c *config, value string) error {
	if !proofShape.MatchString(value) {
		return errors.New("give the line with the public key, v=MCPv1; k=ed25519; p= and its base64; the private key stays elsewhere")
	}
	c.RegistryProof = value
	return nil
}

func readProxies(c *config, value string) error {
	for part := range strings.SplitSeq(value, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(part))
		if err != nil {
			return errors.New("give networks such as 10.0.0.0/8")
		}
		c.Proxies = append(c.Proxies, p)
	}
	return nil
}

// dataFolder is where a development deployment keeps everything.
func dataFolder() string {
	if dir := os.Getenv("SIDEQUEST_DATA"); dir != "" {
		return dir
	}
	return ".sidequest"
}
