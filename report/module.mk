report_SOURCES := report/chart.c report/html.c report/page.c report/report.c report/rows.c report/spread.c report/stats.c report/tally.c report/template.c

# What .incbin takes in is no #include: make has to be told of it.
$(BUILD)/obj/report/template.o: report/page.html report/page.css report/page.js
