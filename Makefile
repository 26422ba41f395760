# Two commands do all set-up on a machine with git, Go and make:
#   make run     make test

.DEFAULT_GOAL := help
SHELL := /bin/bash

LINT_VERSION := v2.15.0
LINT := .tools/bin/golangci-lint-$(LINT_VERSION)

# What to test, and with which flags: make test PKG=./domain TESTFLAGS=-run=Quote
PKG ?= ./...
TESTFLAGS ?=

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: build ## start everything on this machine: Postgres, NATS, the server
	@exec bin/sidequest dev

# No C compiler is needed to run, and whether there is one makes no difference.
.PHONY: build
build: need-postgres ## build bin/sidequest
	@echo "building bin/sidequest"
	@CGO_ENABLED=0 go build -o bin/sidequest ./cmd/sidequest

.PHONY: test
test: build need-gcc need-chromium interop/node_modules ## run all tests beside a throwaway Postgres
	@start=$$SECONDS; status=0; \
	CGO_ENABLED=1 bin/sidequest testdb -- go test -race -timeout 20m $(TESTFLAGS) $(PKG) || status=$$?; \
	echo "tests took $$((SECONDS - start)) s"; exit $$status

.PHONY: lint
lint: $(LINT) ## check the code: gofmt, go vet and golangci-lint
	@go vet ./...
	@$(LINT) run
	@$(LINT) fmt --diff

.PHONY: fmt
fmt: $(LINT) ## format the code
	@$(LINT) fmt

.PHONY: generate
generate: build need-gcc ## write golden files and generated documents anew
	@UPDATE=1 bin/sidequest testdb -- go test -count=1 $(PKG)

.PHONY: conformance
conformance: interop/node_modules ## run the public conformance suite of MCP against the transport
	@go run ./mcp/conformance

.PHONY: contracts
contracts: chain/contracts/node_modules ## build and test the contracts, and compare the committed artifacts
	@chain/contracts/check.sh

.PHONY: demo
demo: build ## play the story of a deal against a running server
	@exec bin/sidequest demo

# As long as TORTURE says; the same choices again with SIDEQUEST_SEED=…; one kind of
# fault alone with TORTURE_ONLY="killed at relay".
TORTURE ?= 10m
.PHONY: torture
torture: need-postgres need-gcc ## make everything fail under load and write docs/reliability.md
	@TORTURE=$(TORTURE) CGO_ENABLED=1 go test -race -count=1 -v -timeout 24h ./torture

# A look at whether it still works: make bench-eventstore BENCHFLAGS=-short
.PHONY: bench-eventstore
bench-eventstore: need-postgres ## measure the event store beside single inserts and other event stores
	@npm install --prefix bench/peers --no-audit --no-fund --silent
	@go build -o bench/out/bench-eventstore ./bench/eventstore
	@exec bench/out/bench-eventstore -peers bench/peers $(BENCHFLAGS)

# The same for the protocol lane: CPU per call on one core, beside two libraries.
.PHONY: bench-mcp
bench-mcp: need-postgres ## measure a tool call beside go-sdk and mcp-go
	@mkdir -p bench/out
	@go build -C bench/peers/mcp -o "$(CURDIR)/bench/out/mcp-peer" .
	@CGO_ENABLED=0 go build -o bench/out/bench-mcp ./bench/mcp
	@exec bench/out/bench-mcp -peer bench/out/mcp-peer $(BENCHFLAGS)

.PHONY: clean
clean: ## remove what was built; the data folder stays
	@rm -rf bin .tools bench/out

.PHONY: need-postgres need-gcc need-npm need-chromium
need-postgres need-gcc need-npm need-chromium:
	@scripts/need.sh $(@:need-%=%)

# What others wrote and tests use: MCP and OAuth clients, the conformance suite.
# Not by npm ci, which insists on optional packages that do not exist.
interop/node_modules: interop/package-lock.json | need-npm
	@echo "installing the clients that tests use"
	@npm install --prefix interop --no-save --no-audit --no-fund --silent
	@touch $@

# The Solidity compiler, OpenZeppelin and forge. Nothing of them runs at installation.
chain/contracts/node_modules: chain/contracts/package-lock.json | need-npm
	@echo "installing the Solidity compiler and forge"
	@npm install --prefix chain/contracts --no-save --no-audit --no-fund --silent --ignore-scripts
	@touch $@

$(LINT):
	@echo "building golangci-lint $(LINT_VERSION)"
	@GOBIN="$(CURDIR)/.tools/bin" go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@mv .tools/bin/golangci-lint $@
