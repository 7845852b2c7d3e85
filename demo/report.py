"""
A small analyst's job: read invoices, fetch today's exchange rates over HTTPS, write weighted averages and outliers to
report.json and a picture to chart.png.

It has a flaw that programs written by language models have: it takes what it reads for instructions. follow() does
what an invoice's note asks for, and records in attempts.json what came of it. Nothing here knows of Eclusa: proxy
and certificates come from the environment, as for any program.
"""
import io
import json
import os
import re
import socket
import time
import urllib.error
import urllib.parse
import urllib.request

os.environ.setdefault("MPLCONFIGDIR", "/tmp/matplotlib")

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pandas as pd

RATES_URL = "https://rates.example.com/v1/rates.csv"
OUT = os.environ.get("OUT", "/out")
OUTLIER_SCORE = 3.5  # modified z-score, Iglewicz and Hoaglin


def fetch(url, data=None):
    with urllib.request.urlopen(url, data=data, timeout=10) as response:
        return response.read()


def attempt(what, target, action):
    """Run @action; tell how it ended, in the words that a program gets to see."""
    started = time.monotonic()
    record = {"what": what, "target": target, "succeeded": False, "saw": "", "body": ""}
    try:
        record["saw"] = action()
        record["succeeded"] = True
    except urllib.error.HTTPError as error:
        record["saw"] = f"HTTP {error.code} {error.reason}"
        record["body"] = error.read(4096).decode("utf-8", "replace")
    except urllib.error.URLError as error:
        record["saw"] = str(error.reason)
    except (OSError, ValueError) as error:
        record["saw"] = f"{type(error).__name__}: {error}"
    record["ms"] = round((time.monotonic() - started) * 1000, 1)
    return record


def knock(host, port):
    """Straight to the address, past any proxy."""
    with socket.create_connection((host, port), timeout=10):
        return "connected"


def read_environment(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        names = [entry.split(b"=")[0].decode() for entry in file.read().split(b"\0") if entry]
    if "INVOICE_SERVICE_TOKEN" not in names:
        raise PermissionError(f"process {pid} has nothing of the caller's, only {', '.join(sorted(names)[:3])} ...")
    return f"{len(names)} variables, INVOICE_SERVICE_TOKEN among them"


def follow(note, table):
    """Do what a note asks for, as a program does that can't tell data from instructions."""
    attempts = []
    for url in re.findall(r"POST this table to (https?://\S+)", note):
        attempts.append(attempt("send", f"POST {url}", lambda: f"{len(table)} bytes sent, answer: "
                                + fetch(url, table).decode().strip()))
    for url in re.findall(r"fetch (http://\S+)", note):
        host = urllib.parse.urlsplit(url).hostname
        attempts.append(attempt("fetch", f"GET {url}", lambda: fetch(url).decode().strip()))
        attempts.append(attempt("connect", f"connect to {host}:80 directly", lambda: knock(host, 80)))
    if "environment of your parent" in note:
        attempts.append(attempt("read", "read its parent's environment", lambda: read_environment(os.getppid())))
        attempts.append(attempt("read", "read process 1's environment", lambda: read_environment(1)))
    return attempts


def analyse(invoices, rates):
    invoices = invoices.merge(rates, on="currency", validate="many_to_one")
    invoices["price_eur"] = invoices.unit_price * invoices.eur_per_unit
    invoices["total_eur"] = invoices.price_eur * invoices.quantity
    grouped = invoices.groupby("supplier")
    median = grouped.price_eur.transform("median")
    deviation = (invoices.price_eur - median).abs()
    spread = deviation.groupby(invoices.supplier).transform("median")
    invoices["outlier"] = 0.6745 * deviation / spread > OUTLIER_SCORE
    suppliers = grouped.agg(invoices=("invoice", "count"), quantity=("quantity", "sum"), total_eur=("total_eur", "sum"))
    suppliers["average_price_eur"] = suppliers.total_eur / suppliers.quantity
    return invoices, suppliers.sort_values("average_price_eur")


def draw(invoices, suppliers, path):
    figure, axes = plt.subplots(figsize=(9, 4.8), dpi=120)
    rows = {name: row for row, name in enumerate(suppliers.index)}
    axes.barh(list(rows.values()), suppliers.average_price_eur, color="#c9d7e8", height=0.62, zorder=1)
    usual, odd = invoices[~invoices.outlier], invoices[invoices.outlier]
    axes.scatter(usual.price_eur, usual.supplier.map(rows), s=usual.quantity * 1.5, color="#2f5d8a", alpha=0.55, zorder=2,
                 linewidths=0, label="invoice (area: quantity)")
    axes.scatter(odd.price_eur, odd.supplier.map(rows), s=60, marker="D", color="#c8442f", zorder=3, label="outlier")
    for _, row in odd.iterrows():
        axes.annotate(row.invoice, (row.price_eur, rows[row.supplier]), xytext=(0, 9), textcoords="offset points",
                      ha="center", fontsize=8, color="#c8442f")
    for name, row in rows.items():
        axes.text(0.6, row, f"{suppliers.average_price_eur[name]:.2f}", va="center", fontsize=8, color="#333333")
    axes.set_yticks(list(rows.values()), list(rows))
    axes.set_xlim(left=0)
    axes.set_xlabel("price per hour in EUR; bar: average weighted by quantity")
    axes.set_title("What suppliers charge, and the invoices that stand out", loc="left", fontsize=12)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)
    axes.legend(loc="lower right", frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path)


def main():
    with open("invoices.csv", "rb") as file:
        table = file.read()
    invoices = pd.read_csv(io.BytesIO(table), keep_default_na=False)
    rates = pd.read_csv(io.BytesIO(fetch(RATES_URL)))
    attempts = [dict(entry, invoice=row.invoice) for row in invoices.itertuples() for entry in follow(row.note, table)]
    invoices, suppliers = analyse(invoices, rates)
    draw(invoices, suppliers, os.path.join(OUT, "chart.png"))
    report = {
        "invoices": len(invoices),
        "total_eur": round(float(invoices.total_eur.sum()), 2),
        "suppliers": json.loads(suppliers.round(2).reset_index().to_json(orient="records")),
        "outliers": json.loads(invoices[invoices.outlier][["invoice", "supplier", "price_eur"]].round(2)
                               .to_json(orient="records")),
    }
    for name, content in (("report.json", report), ("attempts.json", attempts)):
        with open(os.path.join(OUT, name), "w", encoding="utf-8") as file:
            json.dump(content, file, indent=2)
            file.write("\n")
    print(f"{report['invoices']} invoices, {report['total_eur']:.2f} EUR, {len(report['outliers'])} outliers")


if __name__ == "__main__":
    main()
