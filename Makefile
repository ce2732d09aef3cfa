# caddy-codex: the two commands are `make run` and `make test`.

CADDY_VERSION := v2.11.9
CODEX_VERSION := 0.169.0
PORT          := 8080
MINUTES       := 60
TIME          := 30s

CACHE  := .cache
CADDY  := build/caddy
XCADDY := $(CACHE)/xcaddy
LINT   := $(CACHE)/staticcheck
JQ     := $(CACHE)/gojq
CODEX  := $(CACHE)/codex/$(CODEX_VERSION)

# npm writes this file when it has installed the clients of the tests.
CLIENTS := internal/test/e2e/clients/node_modules/.package-lock.json

SOURCES := $(shell find . -name '*.go' -not -name '*_test.go' -not -path './.cache/*' -not -path './build/*' -not -path '*/node_modules/*') go.mod go.sum

.PHONY: run test simulate fuzz soak build deps fmt clean

# run serves the API on http://localhost:8080: with your own Codex login if
# there is one, else with the embedded scripted model.
run: $(CADDY)
	@go run ./internal/cmd/demo -caddy $(CADDY) -codex-dir $(CACHE)/codex -codex-version $(CODEX_VERSION) -port $(PORT)

build: $(CADDY)

# test runs all that CI runs.
test: deps $(CADDY)
	@./scripts/check

# simulate runs the whole gateway in simulations, each drawn from a seed:
# `make simulate SEEDS=10000`; `make simulate SEED=7` repeats one.
SEEDS := $(if $(SEED),1,1000)
COUNT := 1
simulate:
	go test -race -timeout 0 -count $(COUNT) -run TestSimulation ./internal/test/simulation -args -seeds $(SEEDS) -seed $(or $(SEED),1)

# fuzz runs every fuzz target for TIME.
fuzz:
	@./scripts/fuzz $(TIME)

# soak strains the product for MINUTES, and says what became of it. What Caddy logs
# goes to build/soak.log.
soak: $(CADDY) $(CODEX)
	@go run ./internal/test/cmd/soak -caddy $(CADDY) -codex $(CACHE)/codex/node_modules/.bin/codex -minutes $(MINUTES) -log build/soak.log

# deps gets what the tests need: the linter, jq for a command of the docs, the
# pinned codex, and the clients from npm that judge the API.
deps: $(LINT) $(JQ) $(CODEX) $(CLIENTS)

# The product is built as its users build it.
$(CADDY): $(XCADDY) $(SOURCES)
	@mkdir -p $(@D)
	$(XCADDY) build $(CADDY_VERSION) --output $@ --with github.com/caddy-codex/caddy-codex@v0.0.0=.

$(XCADDY): tools/go.mod tools/go.sum
	@mkdir -p $(@D)
	cd tools && go build -o ../$@ github.com/caddyserver/xcaddy/cmd/xcaddy

$(LINT): tools/go.mod tools/go.sum
	@mkdir -p $(@D)
	cd tools && go build -o ../$@ honnef.co/go/tools/cmd/staticcheck

$(JQ): tools/go.mod tools/go.sum
	@mkdir -p $(@D)
	cd tools && go build -o ../$@ github.com/itchyny/gojq/cmd/gojq

$(CODEX):
	npm install --no-save --prefix $(CACHE)/codex @openai/codex@$(CODEX_VERSION)
	@touch $@

$(CLIENTS): internal/test/e2e/clients/package-lock.json
	npm ci --prefix internal/test/e2e/clients --ignore-scripts --no-audit --no-fund
	@touch $@

fmt:
	gofmt -w .

clean:
	rm -rf build $(CACHE)
