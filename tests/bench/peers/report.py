"""The figures as lines of JSON or as tables, and where kvc is ahead."""

import json
import sys

MIB = 1 << 20
LEVEL = 0.95  # within so much of the other's ratio: level


def label(size):
    return f"{size >> 20}m" if size >= MIB else f"{size >> 10}k"


def cell(row):
    return label(row["size"]) + (f"_x{row['batch']}" if row["batch"] > 1 else "")


def compare(rows):
    """Of every other peer and operation: how many cells up to 1 MiB kvc is ahead in, which it is behind in, and how 8 MiB stand.

    Ratios are compared, each with the copies of the peer's own turns."""
    kvc = {(row["operation"], row["size"], row["batch"]): row["ratio"] for row in rows if row["peer"] == "kvc"}
    lines = []
    for peer in dict.fromkeys(row["peer"] for row in rows if kvc and row["peer"] != "kvc"):
        for operation in ("get", "put"):
            cells = [(row, kvc.get((operation, row["size"], row["batch"]), 0.0)) for row in rows if row["peer"] == peer and row["operation"] == operation]
            small = [(row, ours) for row, ours in cells if row["size"] <= MIB]
            lines.append({"peer": peer, "operation": operation, "ahead": sum(ours > row["ratio"] for row, ours in small), "of": len(small),
                          "behind": [f"{cell(row)} {ours:.3f} to {row['ratio']:.3f}" for row, ours in small if ours <= row["ratio"]],
                          "below_level": [f"{cell(row)} {ours:.3f} to {row['ratio']:.3f}" for row, ours in cells
                                          if row["size"] > MIB and ours < LEVEL * row["ratio"]]})
    return lines


class Json:
    def begin(self, versions):
        for peer, version in versions.items():
            self.line(name=f"peers.version.{peer}", version=version)

    def line(self, **what):
        print(json.dumps({key: round(value, 4) if isinstance(value, float) else value for key, value in what.items()}), flush=True)

    def rows(self, rows):
        for row in rows:
            self.line(name=f"peers.{row['operation']}_{cell(row)}.{row['peer']}", value=row["value"], unit="GB/s", baseline=row["baseline"],
                      copy=row["copy"], ratio=row["ratio"], p50_us=row["p50_us"], p99_us=row["p99_us"], operations=row["operations"])

    def end(self, rows, skipped):
        for line in compare(rows):
            self.line(name=f"peers.ahead_{line.pop('operation')}.{line.pop('peer')}", **line)
        for peer, reason in skipped.items():
            self.line(name=f"peers.skipped.{peer}", reason=reason)
        self.line(name="peers.skipped", value=len(skipped))


class Table:
    def begin(self, versions):
        for peer, version in versions.items():
            print(f"{peer:9s} {version}")
        sys.stdout.flush()

    def rows(self, rows):
        if rows:
            print(f"   measured {cell(rows[0])}", file=sys.stderr, flush=True)

    def end(self, rows, skipped):
        sizes, batches = (sorted({row[key] for row in rows}) for key in ("size", "batch"))
        found = {(row["operation"], row["batch"], row["peer"], row["size"]): row for row in rows}
        for operation in ("get", "put"):
            for batch in batches:
                print(f"\n{operation}, {batch} a call: GB/s of the median operation, its ratio to copies of the same blocks, p99 in us")
                print(" " * 9 + "".join(f"{label(size):>27s}" for size in sizes))
                for peer in dict.fromkeys(row["peer"] for row in rows):
                    cells = (found.get((operation, batch, peer, size)) for size in sizes)
                    print(f"{peer:9s}" + "".join(f"{c['value']:9.3f}{c['ratio']:7.3f}{c['p99_us']:11.1f}" if c else " " * 27 for c in cells))
        print()
        for line in compare(rows):
            behind = f"; behind at {', '.join(line['behind'])}" if line["behind"] else ""
            below = f"; below level at {', '.join(line['below_level'])}" if line["below_level"] else "; level at 8 MiB"
            print(f"{line['operation']}: kvc is ahead of {line['peer']} in {line['ahead']} of {line['of']} cells up to 1 MiB{behind}{below}")
        for peer, reason in skipped.items():
            print(f"skipped {peer}: {reason}")
        print(f"{len(skipped)} skipped")
