# What a Go program is made of, as a CycloneDX document, from what the Go linker has recorded
# in the program:
#
#	go version -m -json build/caddy | jq -f scripts/sbom.jq

def library($name; $version):
  "pkg:golang/\($name)@\($version)" as $purl
  | {"bom-ref": $purl, type: "library", name: $name, version: $version, purl: $purl};

# Where another module replaces one, that was built; a directory has no version of its own.
def built: if (.Replace.Version // "(devel)") == "(devel)" then . else .Replace end;

{
  bomFormat: "CycloneDX",
  specVersion: "1.6",
  version: 1,
  metadata: {component: {"bom-ref": "program", type: "application", name: (.Path // .Main.Path)}},
  components: [
    library("std"; .GoVersion | ltrimstr("go") | split(" ")[0]),
    (.Deps[]? | built | library(.Path; .Version))
  ]
}
