#!/usr/bin/env python3
"""Starts dynamo-interconnect-check with the arguments of the original script, and keeps its contract.

JSON on standard output, always. Exit codes 0, 1 and 2 pass through; 3 (not trusted, although asked for) and 4 (something
asked for could not be done) become 1, with the reason under "launcher". Without the binary the JSON says how to get it.

The binary is looked for in the variable DYNAMO_INTERCONNECT_CHECK, then on PATH.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys

NAME = "dynamo-interconnect-check"
VARIABLE = "DYNAMO_INTERCONNECT_CHECK"
REPORTING = ("env", "node", "nixl", "check")
# The names that the original always gave, by subcommand, each with its id and what is not there when nothing is to be said.
NO_DEVICE = "there is no RDMA device that may be opened here"
NO_GPU = "there is no NVIDIA GPU here"
ALWAYS = {
    "env": (("ENV004", "env:disagg-transport", "no worker here takes part in disaggregated serving"),),
    "node": (
        ("NODE001", "node:target", "nothing was reached"),
        ("RDMA001", "ib-devices", NO_DEVICE),
        ("RDMA004", "ibv-devinfo", NO_DEVICE),
        ("RDMA002", "ib-link", NO_DEVICE),
        ("GPU001", "gpudirect-peermem", "there is no NVIDIA GPU here, or no RDMA hardware that may be opened"),
        ("GPU002", "gdrcopy", NO_GPU),
        ("GPU003", "gpu-topology", NO_GPU),
    ),
    "nixl": (
        ("NIXL003", "nixl", "nothing was reached"),
        ("NIXL004", "nixl:binary", "nothing was reached"),
    ),
}
REASONS = {
    3: "trust was required, and the deployment is not trusted",
    4: "something that was asked for could not be done: see verdict and errors",
}


def binary():
    """Path of the program, or None."""
    named = os.environ.get(VARIABLE)
    if named:
        return named if os.access(named, os.X_OK) else None
    return shutil.which(NAME)


def get_it():
    """How to get the program: from the sources that this skill lies in, where it does."""
    skill = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    root = os.path.dirname(os.path.dirname(skill))
    build = "cargo install --path ."
    # A directory above a skill may be anything, and its Cargo.toml of any program.
    if os.path.basename(os.path.dirname(skill)) == "skills" and sources_of_it(root):
        build = "cargo install --path " + shlex.quote(root)
        place = "Its sources lie above this skill: "
    else:
        place = "In the directory of its sources (the repository that this skill is from): "
    return "%s was not found: put the binary on PATH, or name it in the variable %s. %s%s" % (
        NAME, VARIABLE, place, build,
    )


def sources_of_it(directory):
    """Whether a directory holds the sources of the program."""
    try:
        with open(os.path.join(directory, "Cargo.toml"), encoding="utf-8") as manifest:
            return any(line.strip() == 'name = "%s"' % NAME for line in manifest)
    except (OSError, UnicodeError):
        return False


def arguments(args):
    """The arguments for the program, and what was left out of those of the original."""
    args = list(args)
    left_out = []
    # The original took a namespace and a container without a pod, and looked at this machine. What is judged instead of a
    # machine has neither, and the program says so.
    targets = ("--pod", "--pods", "--selector", "--input", "--from")
    has_target = any(a.split("=")[0] in targets or a.startswith("-l") for a in args)
    if args and args[0] in ("node", "nixl") and not has_target:
        kept, at = [], 0
        while at < len(args):
            name, joined, value = args[at].partition("=")
            if name in ("-n", "--namespace", "-c", "--container"):
                if not joined:
                    value = args[at + 1] if at + 1 < len(args) else ""
                # Without a value the command line is wrong, and the program says so.
                if not value.strip() or not joined and value.startswith("-"):
                    kept.append(args[at])
                    at += 1
                    continue
                left_out.append(name)
                at += 1 if joined else 2
                continue
            # The value stands in the same word: -nNAMESPACE.
            if name[:2] in ("-n", "-c") and len(name) > 2:
                left_out.append(name[:2])
                at += 1
                continue
            kept.append(args[at])
            at += 1
        args = kept
    chosen = any(a.startswith(("-o", "--output")) for a in args)
    if args and args[0] in REPORTING + ("explain", "demo") and not chosen:
        args += ["-o", "json"]
    return args, left_out


def complete(report, args):
    """Adds the names of the original that the program leaves out because the question does not arise, or nothing was read.

    The original always gave them, and whoever reads its JSON looks for them. They are skipped, which is no pass.
    """
    others = ("--pods", "--selector", "--input", "--from", "--transfer")
    if not args or any(a.split("=")[0] in others or a.startswith("-l") for a in args):
        return
    checks = report.get("checks", [])
    errors = report.get("errors", [])
    read = bool(checks)
    wanted = ALWAYS.get(args[0], ())
    if args[0] == "env":
        places = [{"kind": "input", "name": next((a for a in args[1:] if not a.startswith("-")), "env")}]
        said = {check.get("name") for check in checks}
        if "env" in said:
            # The only name where there is no manifest.
            return
        if not read:
            wanted = (("ENV001", "env", "nothing was read"),)
        missing = [(places[0], row) for row in wanted if row[1] not in said]
    else:
        pod = value_of(args, "--pod")
        unread = {"kind": "pod", "name": pod} if pod else {"kind": "host", "name": "localhost"}
        places = [probed.get("target") for probed in report.get("targets", [])] or [unread]
        said = [(check.get("target"), check.get("name")) for check in checks]
        missing = [(place, row) for place in places for row in wanted if (place, row[1]) not in said]
    for place, (identity, name, detail) in missing:
        if not read and errors:
            detail = "nothing was read: %s" % errors[0].get("message", "")
        checks.append({
            "id": identity, "name": name, "status": "skipped", "detail": detail, "target": place, "kv_path": "off",
            "evidence": [], "fix": None, "reason": "not-applicable" if read else "not-collected",
        })
    report.get("counts", {})["skipped"] = sum(check.get("status") == "skipped" for check in checks)


def value_of(args, option):
    """The value of an option, or None."""
    for at, word in enumerate(args):
        name, joined, value = word.partition("=")
        if name == option:
            return value if joined else "".join(args[at + 1:at + 2])
    return None


def nothing_done(detail, code=None):
    """What is printed when the program did not run (code: None), or ended with this code and without a report."""
    return {
        "checks": [{"name": NAME, "status": "skipped", "detail": detail}],
        "counts": {"ok": 0, "warn": 0, "fail": 0, "skipped": 1},
        "coverage": {"observed": 0, "applicable": 1},
        "trust": "unproven",
        "fix_first": [],
        "verdict": "Nothing was checked: " + detail,
        "launcher": {"exit_code": code, "reason": detail},
    }


def say(text):
    """Prints text. A reader that went away (`| head`) has seen what it wanted, and changes no exit code."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes again when it ends, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say_json(value):
    """Prints JSON for a program."""
    say(json.dumps(value, indent=2) + "\n")


def main(args):
    """Runs the program; returns the exit code."""
    program = binary()
    if program is None:
        named = os.environ.get(VARIABLE)
        what = "%s names %s, which is no program. " % (VARIABLE, named) if named else ""
        say_json(nothing_done(what + get_it()))
        return 1
    args, left_out = arguments(args)
    try:
        done = subprocess.run(
            [program] + args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False
        )
    except OSError as error:
        say_json(nothing_done("%s cannot be run: %s" % (program, error)))
        return 1
    text = done.stdout.decode("utf-8", "replace")
    said = done.stderr.decode("utf-8", "replace")
    sys.stderr.write(said)
    reason = REASONS.get(done.returncode)
    if done.returncode < 0 or done.returncode > 4:
        reason = "the program ended with %d" % done.returncode
    try:
        report = json.loads(text)
    except ValueError:
        # Help, a version, another format; or the command line is wrong, which is said on standard error.
        if text:
            say(text)
        else:
            detail = (reason or said or "no answer").strip()
            say_json(nothing_done(detail, done.returncode))
        return 1 if reason else done.returncode
    if isinstance(report, dict):
        complete(report, args)
        if left_out:
            report.setdefault("notes", []).append(
                {"object": " ".join(left_out), "message": "left out: it chooses nothing without --pod"}
            )
            # The first thing that is read must say whose machine this was.
            report["verdict"] = "This machine was looked at, and no pod: name one with --pod. " + str(
                report.get("verdict", "")
            )
        if reason:
            report["launcher"] = {"exit_code": done.returncode, "reason": reason}
    say_json(report)
    return 1 if reason else done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
