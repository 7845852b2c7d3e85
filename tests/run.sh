#!/usr/bin/env bash
# Builds and tests everything; the last line is `N passed, N failed, N skipped`. Logs: build/test-logs.
#
#   tests/run.sh                                  all stages
#   tests/run.sh unit|san|integration|check ...   only these
#
# unit: a gcc build and the unit tests. san: the same under ASan and UBSan, and every fuzz corpus
# replayed. integration: pytest, as root, in namespaces of its own. check: tests/check.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

logs=$PWD/build/test-logs
jobs=$(nproc)
passed=0 failed=0 skipped=0
export logs

say() { printf '%s %s\n' "$(date +%T)" "$*"; }

count() { # passed failed skipped
	passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
}

build() { # name, make arguments: builds, and counts as a test
	local name=$1 log=$logs/build-$1.log
	shift
	say "build $name"
	if make -j"$jobs" "$@" >"$log" 2>&1; then
		count 1 0 0
		return 0
	fi
	count 0 1 0
	say "FAILED build $name; the end of $log:"
	tail -n 30 "$log"
	return 1
}

# One cmocka program: its log, and its counts in <log>.counts. A program that died early or tells nothing
# counts its missing tests, at least one, as failed.
run_unit() { # program log
	local status=0
	CMOCKA_MESSAGE_OUTPUT=TAP timeout -k 5 600 "$1" >"$2" 2>&1 </dev/null || status=$?
	awk -v status="$status" '
		/^1\.\.[0-9]+$/ { plan = substr($0, 4) + 0 }
		/^(not )?ok [0-9]+/ {
			number = $1 == "not" ? $3 : $2
			if (number in seen) next
			seen[number] = 1; total++
			if (/# SKIP/) skip++; else if ($1 == "not") bad++; else good++
		}
		END {
			if (plan > total) bad += plan - total
			if (status != 0 && bad == 0 || total == 0) bad++
			print good + 0, bad + 0, skip + 0
		}' "$2" >"$2.counts"
}
# One fuzz target over its corpus; a target without a corpus is a failure.
run_replay() { # program log
	local name=${1##*/replay_fuzz_} good=1
	{
		mapfile -d '' files < <(find "tests/fuzz/corpus/$name" -type f -print0)
		[ ${#files[@]} -gt 0 ] && timeout -k 5 600 "$1" "${files[@]}" || good=0
	} >"$2" 2>&1 </dev/null
	echo "$good $((1 - good)) 0" >"$2.counts"
}
export -f run_unit run_replay

run_each() { # stage function programs...
	local stage=$1 function=$2 program log
	shift 2
	say "$stage: $# programs"
	# shellcheck disable=SC2016 # expanded by the inner shell
	printf '%s\0' "$@" | stage=$stage function=$function xargs -0 -r -P "$jobs" -n 1 \
		bash -c '"$function" "$1" "$logs/$stage-${1##*/}.log"' _
	for program in "$@"; do
		log=$logs/$stage-${program##*/}.log
		read -r good bad skip <"$log.counts"
		rm -f "$log.counts"
		count "$good" "$bad" "$skip"
		if [ "$bad" -gt 0 ]; then
			say "FAILED $stage ${program##*/}; from $log:"
			grep -v '^ok ' "$log" | tail -n 40 || true
		fi
	done
}

programs() { # folder name of sources, sources' pattern, folder of binaries, prefix of binaries
	local source
	for source in tests/"$1"/$2; do
		[ -e "$source" ] && source=${source##*/} && printf '%s/%s%s\n' "$3" "$4" "${source%.c}"
	done
	return 0
}

stage_unit() {
	build gcc BUILD=build CC=gcc tests-build || return 0
	mapfile -t list < <(programs unit 'test_*.c' build/tests '')
	run_each unit run_unit "${list[@]}"
}

stage_san() {
	build sanitizers SAN=1 BUILD=build/san CC=gcc unit replay-build || return 0
	export ASAN_OPTIONS=abort_on_error=0:exitcode=99 UBSAN_OPTIONS=print_stacktrace=1
	mapfile -t list < <(programs unit 'test_*.c' build/san/tests '')
	run_each san run_unit "${list[@]}"
	mapfile -t list < <(programs fuzz 'fuzz_*.c' build/san/tests replay_)
	[ ${#list[@]} -eq 0 ] || run_each corpus run_replay "${list[@]}"
	unset ASAN_OPTIONS UBSAN_OPTIONS
}

stage_integration() {
	build programs BUILD=build CC=gcc all || return 0
	compgen -G 'tests/integration/test_*.py' >/dev/null || return 0
	local xml=$logs/integration.xml log=$logs/integration.log
	say "integration (log: $log)"
	rm -f "$xml"
	BUILD=$PWD/build PYTHONDONTWRITEBYTECODE=1 timeout -k 10 3000 \
		/usr/bin/python3 -m pytest tests/integration -p no:cacheprovider -rs --tb=short \
		--durations=10 --junitxml="$xml" 2>&1 </dev/null | tee "$log" || true
	# shellcheck disable=SC2046 # three numbers
	count $(/usr/bin/python3 tests/junit_counts.py "$xml")
}

stage_check() {
	local log=$logs/check.log
	say "check (log: $log)"
	tests/check.sh 2>&1 | tee "$log" || true
	# shellcheck disable=SC2046 # three numbers
	count $(sed -n '$s/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "$log" |
		grep . || echo 0 1 0)
}

mkdir -p "$logs"
[ $# -gt 0 ] || set -- check unit san integration
for stage in "$@"; do
	case $stage in
	unit | san | integration | check) ;;
	*)
		sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
		exit 2
		;;
	esac
done
for stage in "$@"; do
	started=$SECONDS
	"stage_$stage"
	say "$stage took $((SECONDS - started)) s: so far $passed passed, $failed failed, $skipped skipped"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
