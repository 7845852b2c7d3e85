policy_SOURCES := policy/host.c policy/target.c policy/arena.c policy/bundle.c policy/report.c policy/lexer.c \
	policy/pattern.c policy/rule.c policy/value.c policy/attribute.c policy/parser.c policy/statement.c policy/statement_rule.c policy/finish.c policy/limit.c policy/narrow.c \
	policy/profile.c policy/decide.c policy/suggest.c policy/expect.c policy/resolve.c policy/compile.c \
	policy/source.c
policy_SOURCES += policy/admits.c
policy_SOURCES += policy/matcher.c policy/matcher_paths.c policy/matcher_prefixes.c policy/suffix.c policy/alabel.c \
	policy/cover.c policy/conflict.c policy/lint.c policy/lint_rule.c policy/lint_pair.c
policy_SOURCES += policy/opens.c
policy_SOURCES += policy/ask.c policy/explain.c policy/canonical.c policy/witness.c policy/diff.c policy/diff_change.c policy/format.c policy/format_word.c
policy_SOURCES += policy/config.c policy/manifest.c policy/trust.c
