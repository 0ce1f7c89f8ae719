#!/usr/bin/env python3
"""Makes .ci/vulndb anew from a checkout of github.com/golang/vulndb:

    .ci/vulndb.py CHECKOUT

It is what `make vuln` falls back on where the database itself cannot be
reached: of the entries about the standard library, the toolchain and the
modules of this build, and of those of devp2p/ and libp2p/, those that are not mended in the versions at hand, and
of them the facts only (which versions, packages and symbols), no texts.
"""
import json, pathlib, re, shutil, subprocess, sys

root = pathlib.Path(__file__).resolve().parent
out = root / "vulndb"


def run(*args, cwd=root):
    return subprocess.run(args, cwd=cwd, check=True, capture_output=True, text=True).stdout


def version(s):
    """Order of a version without its suffix: before a release come its betas."""
    m = re.match(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?", s)
    return tuple(int(x or 0) for x in m.groups()) if m else (0, 0, 0)


def mended(affected, have):
    """Whether every range of an entry was mended in the version at hand."""
    for r in affected.get("ranges", []):
        fixed = [e["fixed"] for e in r["events"] if "fixed" in e]
        if not fixed or version(fixed[-1]) > have:
            return False
    return True


checkout = pathlib.Path(sys.argv[1])
have = {}
for module in (root.parent, root.parent / "devp2p", root.parent / "libp2p"):
    for line in run("go", "list", "-m", "-f", "{{.Path}} {{.Version}} {{.GoVersion}} {{.Main}}", "all", cwd=module).splitlines():
        path, *rest = line.split(" ")
        names, v = [path], version(rest[0])
        if rest[-1] == "true":
            names, v = ["stdlib", "toolchain"], version(rest[-2])
        for name in names:  # the older of two versions
            have[name] = min(v, have.get(name, v))

commit, date, time = run("git", "log", "-1", "--format=%h %cs %cI", cwd=checkout).split()
keep, modules = {}, {}
for file in sorted((checkout / "data" / "osv").glob("GO-*.json")):
    entry = json.loads(file.read_text())
    if "withdrawn" in entry:
        continue
    affected = [a for a in entry["affected"] if a["package"]["name"] in have]
    affected = [a for a in affected if not mended(a, have[a["package"]["name"]])]
    if not affected:
        continue
    facts = {k: entry[k] for k in ("schema_version", "id", "modified", "published", "aliases", "database_specific") if k in entry}
    facts["affected"] = affected
    keep[entry["id"]] = facts
    for a in affected:
        fixed = [e["fixed"] for r in a.get("ranges", []) for e in r["events"] if "fixed" in e]
        vuln = {"id": entry["id"], "modified": entry["modified"]}
        if fixed:
            vuln["fixed"] = fixed[-1]
        modules.setdefault(a["package"]["name"], []).append(vuln)

shutil.rmtree(out, ignore_errors=True)
(out / "ID").mkdir(parents=True)
(out / "index").mkdir()
dump = lambda path, what: path.write_text(json.dumps(what, indent=1, sort_keys=True) + "\n")
for id, facts in keep.items():
    dump(out / "ID" / (id + ".json"), facts)
dump(out / "index" / "db.json", {"modified": time})
dump(out / "index" / "modules.json", [{"path": p, "vulns": v} for p, v in sorted(modules.items())])
dump(out / "index" / "vulns.json", [{"id": i, "modified": f["modified"], "aliases": f.get("aliases", [])} for i, f in sorted(keep.items())])
(out / "README").write_text(
    f"Facts from the Go vulnerability database (github.com/golang/vulndb, {commit}, CC BY 4.0);\n"
    f"made by .ci/vulndb.py. They end on:\n{date}\n"
)
print(f"{len(keep)} entries about {len(modules)} modules, as known on {date}")
