# caddy-codex: `make run` serves the API, `make test` runs all tests.

CADDY_VERSION := v2.11.9
CODEX_VERSION := 0.171.0
NFPM_VERSION  := v2.45.2
PORT          := 8080
MINUTES       := 60
TIME          := 30s

# The version of a build is the git tag of the commit; without one it is v0.0.0, which
# the module shows as (devel).
VERSION := $(or $(shell git describe --tags --exact-match --match 'v[0-9]*' --dirty 2>/dev/null),v0.0.0)

CACHE    := .cache
CADDY    := build/caddy
# This one looks for races, for `make race`.
RACE_CADDY := build/race/caddy
XCADDY   := $(CACHE)/xcaddy
LINT     := $(CACHE)/analyze
JQ       := $(CACHE)/gojq
NFPM     := $(CACHE)/nfpm-$(NFPM_VERSION)
CODEX    := $(CACHE)/codex/$(CODEX_VERSION)

# npm writes this file when it has installed the clients of the tests.
CLIENTS := internal/test/e2e/clients/node_modules/.package-lock.json

SOURCES := $(shell find . -name '*.go' -not -name '*_test.go' -not -path './.cache/*' -not -path './build/*' -not -path '*/node_modules/*') go.mod go.sum

.PHONY: run help build test race smoke e2e compat lint simulate replay fuzz soak marathon bench bench-compare differ lines release deps modules screenshots fmt clean FORCE

# run serves the API and its page on http://localhost:8080, with your own Codex login if
# there is one, else with the built-in scripted model.
run:
	@exec scripts/run $(CODEX_VERSION) $(PORT)

# help lists what make does here.
help:
	@awk '/^#/ { doc = doc substr($$0, 2); next } /^$$/ { doc = "" } \
		match($$0, /^[a-z0-9-]+:/) && index(doc, " " substr($$0, 1, RLENGTH - 1) " ") == 1 { \
			sub(/(\. |: |\.$$).*/, "", doc); print "make" doc }' Makefile

# build builds Caddy with this module.
build: $(CADDY)

# test runs the checks and all tests, as CI does: the unit tests look for races, the
# end-to-end tests run the Caddy that users build.
test:
	@$(MAKE) --jobs 2 deps $(CADDY) # downloads beside builds
	@./scripts/check

# race is like test, but the end-to-end tests and their Caddy look for races, too. CI runs
# it every night.
race:
	@$(MAKE) --jobs 2 deps $(RACE_CADDY)
	@./scripts/check race

# lint runs the linter: the analyzers of go vet and staticcheck, and two for errors.
lint: $(LINT)
	$(LINT) ./...

# e2e runs the end-to-end tests alone. With TRANSPORT=websocket or TRANSPORT=http Codex
# talks to the model in that way in all of them, with LOGIN=none without a login.
TRANSPORT :=
LOGIN     :=
e2e: deps $(CADDY)
	CADDY_CODEX_REQUIRE_ALL=1 TRANSPORT=$(TRANSPORT) LOGIN=$(LOGIN) go test -count 1 -timeout 40m ./internal/test/e2e/...

# compat tries releases of Codex and writes the result into docs/dev/codex-releases.md:
# `make compat VERSIONS="0.169.0 0.171.0"`. TESTS chooses end-to-end tests, as for go test.
VERSIONS := $(CODEX_VERSION)
TESTS    := .
compat: $(CADDY) $(CLIENTS)
	go run ./internal/test/cmd/compat -cache $(CACHE)/compat -run '$(TESTS)' $(VERSIONS)

# simulate runs the gateway in simulations, each drawn from a seed: `make simulate
# SEEDS=10000`. `make simulate SEED=7` repeats one of them.
SEEDS := $(if $(SEED),1,1000)
COUNT := 1
simulate:
	go test -race -timeout 0 -count $(COUNT) -run TestSimulation ./internal/test/simulation -args -seeds $(SEEDS) -seed $(or $(SEED),1)

# replay sends the request of a recording through the gateway again, and prints what goes out differently:
# `make replay FILE=recording.jsonl`. Without FILE, it replays those in testdata/recordings.
FILE :=
export FILE
replay:
	@case "$$FILE" in ''|/*) ;; *) FILE=$$PWD/$$FILE ;; esac; \
	go test -count 1 -v -run '^TestReplay$$' ./internal/test/replay -replay "$$FILE"

# smoke checks a running server: `make smoke URL=https://HOST KEY=sk-...`.
URL := http://localhost:$(PORT)
export KEY MODEL
smoke:
	@./scripts/smoke $(URL)

# fuzz runs every fuzz target for TIME.
fuzz:
	@./scripts/fuzz $(TIME)

# soak runs Caddy and Codex under mixed traffic for MINUTES and reports the result: with a
# login and outages of its back end, or with LOGIN=none without one. SOAK=-outages makes
# outages alone, SOAK=-meters moves the limits of the plan instead. Caddy's log is build/soak.log.
SOAK :=
soak: $(CADDY) $(CODEX)
	@go run ./internal/test/cmd/soak $(if $(LOGIN),-login=false) -caddy $(CADDY) -codex $(CACHE)/codex/node_modules/.bin/codex -minutes $(MINUTES) -log build/soak.log $(SOAK)

# marathon lets real clients push millions of tokens through a model's context window, and prints
# what failed, was forgotten or was not cached: `make marathon MARATHON='-client claude -nodes 2'`.
MARATHON :=
marathon: $(CADDY) $(CODEX) $(CLIENTS)
	@go run ./internal/test/cmd/marathon -caddy $(CADDY) -codex $(CACHE)/codex/node_modules/.bin/codex -log build/marathon.log $(MARATHON)

# bench measures what Caddy costs beside the least program that does the same, and with
# the real Codex: `make bench BENCH='-repeat 15 -window 3s -streams 10000'`.
BENCH :=
bench: $(CADDY) $(CODEX)
	@go run ./internal/test/cmd/bench -caddy $(CADDY) -codex $(CACHE)/codex/node_modules/.bin/codex $(BENCH)

# bench-compare counts what the stages of a request cost, in allocations and, with valgrind,
# in instructions, and fails if that is more than at another commit: `make bench-compare
# BASE=main`.
BASE := HEAD^
bench-compare:
	@go run ./internal/test/cmd/benchcompare -base '$(BASE)'

# differ sends random requests to this Caddy and to that of another commit, and prints where their
# answers differ: `make differ BASE=main DIFFER='-seed 7 -cases 10000'`.
DIFFER :=
differ: $(CADDY) $(CODEX)
	@commit=$$(git rev-parse --verify '$(BASE)^{commit}') && before=$(CURDIR)/$(CACHE)/differ/$$commit && \
	if [ ! -x $$before ]; then \
		git worktree add --quiet --force --detach $$before-tree $$commit && \
		$(MAKE) -C $$before-tree --old-file $(CURDIR)/$(XCADDY) XCADDY=$(CURDIR)/$(XCADDY) CADDY=$$before build; \
		git worktree remove --force $$before-tree; \
	fi && \
	go run ./internal/test/cmd/differ -caddy $(CADDY) -before $$before -codex $(CACHE)/codex/node_modules/.bin/codex $(DIFFER)

# lines prints the lines of each package, product and tests, that differ from another commit:
# `make lines BASE=main`. With ALL=1 it prints all packages.
lines:
	@ALL=$(ALL) ./scripts/lines '$(BASE)'

# release builds the files of a release in build/release. It publishes nothing.
release: $(XCADDY) $(JQ) $(NFPM)
	@./scripts/release $(VERSION) $(CADDY_VERSION) $(XCADDY) $(JQ) $(NFPM)

# deps installs what the tests need: the linter, jq for a command in the docs, nfpm for
# packages, the pinned Codex, the npm clients, Chromium and Redis.
deps: $(LINT) $(JQ) $(NFPM) $(CODEX) $(CLIENTS)
	@./scripts/chromium
	@./scripts/redis

# screenshots takes the pictures of the page in the docs.
screenshots: deps
	go test -count 1 -run TestScreenshots ./internal/test/e2e/clients -args -screenshots

# This fetches all Go modules at once: those who need them would fetch one after the other.
modules:
	@GOMAXPROCS=16 go mod download
	@cd tools && GOMAXPROCS=16 go mod download

TOOLS := $(XCADDY) $(LINT) $(JQ) $(NFPM)
$(CADDY) $(RACE_CADDY) $(TOOLS): | modules

# The compiler, the linker and the analyzers need up to half less time if they collect garbage less
# often, and 3 GB of memory.
$(CADDY) $(RACE_CADDY) $(TOOLS) release: export GOGC := 400

# The tools share with Caddy what is compiled: these are flags of xcaddy.
$(TOOLS): export CGO_ENABLED := 0
$(TOOLS): export GOFLAGS := $(shell go env GOFLAGS) -trimpath

# Caddy is built in the same way as its users build it.
$(RACE_CADDY): export XCADDY_RACE_DETECTOR := 1
$(CADDY) $(RACE_CADDY): $(XCADDY) $(SOURCES) build/version
	$(XCADDY) build $(CADDY_VERSION) --output $@ --with github.com/caddy-codex/caddy-codex@$(VERSION)=.

# This file changes with the version, so that Caddy is built again.
build/version: FORCE
	@mkdir -p $(@D)
	@echo $(VERSION) | cmp -s - $@ || echo $(VERSION) >$@

$(XCADDY): tools/go.mod tools/go.sum
	@mkdir -p $(@D)
	cd tools && go build -o ../$@ github.com/caddyserver/xcaddy/cmd/xcaddy

$(LINT): tools/go.mod tools/go.sum $(wildcard tools/analyze/*.go)
	@mkdir -p $(@D)
	cd tools && go build -o ../$@ ./analyze

$(JQ): tools/go.mod tools/go.sum
	@mkdir -p $(@D)
	cd tools && go build -o ../$@ github.com/itchyny/gojq/cmd/gojq

# It is no tool of tools/go.mod: it has ninety modules that nothing else needs.
$(NFPM):
	@mkdir -p $(@D)
	GOBIN=$(CURDIR)/$(@D)/nfpm go install github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM_VERSION)
	@mv $(@D)/nfpm/nfpm $@ && rmdir $(@D)/nfpm

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
