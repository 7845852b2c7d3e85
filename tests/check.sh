#!/usr/bin/env bash
# The gates that need no run: format, folder rule, banned words, sizes, headers alone, both compilers'
# warnings, clang's static analyzer, shell scripts, manual pages. Each is one line here; last line `N passed, N failed, N skipped`.
#
#   tests/check.sh [NAME...]     names: analyzer format folders words sizes headers gcc clang shell ...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
logs=build/test-logs
mkdir -p "$logs"
names=(analyzer format folders words sizes headers gcc clang shell manual python)

# Tracked files and new ones that are not ignored; a deleted one is no file.
files() {
	git ls-files -z --cached --others --exclude-standard -- "$@" | sort -zu |
		while IFS= read -r -d '' file; do [ ! -f "$file" ] || printf '%s\0' "$file"; done
}

check_format() { files '*.c' '*.h' | xargs -0 -r clang-format --dry-run -Werror; }
check_folders() { files '*.c' '*.h' | /usr/bin/python3 tests/check_sources.py folders; }
check_words() { files '*.c' '*.h' '*.py' '*.sh' '*.mk' Makefile | /usr/bin/python3 tests/check_sources.py words; }
check_sizes() {
	files '*.c' '*.h' | /usr/bin/python3 tests/check_sources.py lines
	files '*.c' | tr '\0' '\n' |
		ctags --languages=C --kinds-C=f --fields=+ne --output-format=json -L - -f - |
		/usr/bin/python3 tests/check_sources.py functions
}

# With the Makefile's warnings; one process a file, so that every file is judged, and one for each processor at a time.
how=(-fsyntax-only)
compile_all() { # compiler, patterns
	local flags generated compiler=$1 build
	build=$(mktemp -d -p "$work")
	shift
	eval "flags=($(make -s BUILD="$build" CC="$compiler" print-flags))" # quoted for a shell
	mapfile -t generated < <(files '*.c' '*.h' | xargs -0 grep -hoE '"generated/[^"]+"' | tr -d '"' | sort -u)
	[ ${#generated[@]} -eq 0 ] || make -s BUILD="$build" CC="$compiler" "${generated[@]/#/$build/}" >/dev/null
	files "$@" | xargs -0 -r -n 1 -P "$(nproc)" "$compiler" "${flags[@]}" "${how[@]}"
}
check_headers() { compile_all gcc '*.h'; }
check_gcc() { compile_all gcc '*.c'; }
check_clang() { compile_all clang '*.c'; }
check_analyzer() {
	# unix.Malloc knows nothing of the cleanup attribute; leaks are ASan's to find.
	how=(--analyze --analyzer-output text -Xclang -analyzer-werror -o /dev/null
		-Xclang -analyzer-disable-checker -Xclang unix.Malloc)
	compile_all clang '*.c' ':!tests'
}

check_shell() {
	files '*.sh' .ci/run 'packaging/completion/*' | xargs -0 -r shellcheck
}
check_manual() {
	local page status=0
	for page in docs/man/*.[1-9]; do
		mandoc -T lint -W warning "$page" || status=1
		groff -mdoc -ww -T utf8 -z "$page" 2>&1 | grep . && status=1
	done
	return "$status"
}
check_python() { files '*.py' | /usr/bin/python3 tests/check_sources.py python; }

brief() { # a compiler's findings without notes and quoted source; what else there is, whole
	case $1 in
	headers | gcc | clang | analyzer) grep -vE ': note: |^ ' ;;
	*) cat ;;
	esac
}

run() { # not in a condition: there bash would ignore set -e
	set +e
	(set -e; "check_$1") >"$logs/check-$1.log" 2>&1
	echo $? >"$work/$1.status"
}

[ $# -eq 0 ] || names=("$@")
for name in "${names[@]}"; do
	declare -F "check_$name" >/dev/null || { echo "check.sh: no check is called $name" >&2; exit 2; }
	while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n || true; done
	run "$name" &
done
wait
passed=0 failed=0
for name in "${names[@]}"; do
	if [ "$(cat "$work/$name.status" 2>/dev/null)" = 0 ]; then
		echo "check $name: ok"
		passed=$((passed + 1))
	else
		echo "check $name: FAILED (log: $logs/check-$name.log)"
		failed=$((failed + 1))
		brief "$name" <"$logs/check-$name.log" | head -n 40 | sed 's/^/    /'
	fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
