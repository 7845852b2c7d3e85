# bash completion for eclusa(1).
# shellcheck shell=bash

_eclusa_run() { # current word, previous word
	case $2 in
	--in | --out | --rootfs | --bind | --policy | --trust | --audit-dir | --upstream-ca | --upstream-proxy-auth | --hosts | --spec)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$1")
		return
		;;
	--require)
		mapfile -t COMPREPLY < <(compgen -W 'all namespaces mounts proc capabilities no-new-privs filter rlimits network
			notify landlock cgroup uid dial-guard' -- "$1")
		return
		;;
	--proxy-env)
		mapfile -t COMPREPLY < <(compgen -W 'on off' -- "$1")
		return
		;;
	-e | --env)
		mapfile -t COMPREPLY < <(compgen -e -- "$1")
		return
		;;
	--allow | --profile | --upstream-proxy | --resolver | --tmpfs | --memory | --cpus | --pids-limit | --timeout | --cpu-time | --io-rate | \
		--output-limit | --out-limit | --out-file-limit | --out-files)
		return
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W '--in --rootfs --bind --tmpfs --out --overwrite --env --allow --policy --profile --trust --service --memory --cpus
		--pids-limit --timeout --cpu-time --io-rate --output-limit --out-limit --out-file-limit --out-files --require --interactive --json --stream --quiet
		--audit-dir --upstream-ca --upstream-proxy --upstream-proxy-auth --upstream-proxy-by-name --resolver --hosts --proxy-env --spec --help --version --' -- "$1")
}

_eclusa_serve() { # current word, previous word
	case $2 in
	--policy | --socket | --trust | --state-dir | --ca | --ca-key | --ca-out | --upstream-ca | --upstream-proxy-auth | --hosts | --audit-dir)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$1")
		return
		;;
	--profile | --resolver | --upstream-proxy | --workers | --leases | --ready | --metrics | --audit-decisions | --audit-segment-size | --audit-segment-age)
		return
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W '--policy --profile --socket --workers --leases --ready --trust --watch --state-dir --ca --ca-key --ca-out
		--upstream-ca --upstream-proxy --upstream-proxy-auth --upstream-proxy-by-name --hosts --resolver --audit-dir --metrics
		--audit-segment-size --audit-segment-age --audit-decisions --help' -- "$1")
}

_eclusa_policy() { # current word, previous word, tool
	local options='--json --help'
	case $2 in
	--policy | --observed | --trust | --key | --output) options='' ;;
	--from)
		mapfile -t COMPREPLY < <(compgen -W 'squid smokescreen hosts srt npm pip apt' -- "$1")
		return
		;;
	--allow | --profile | --at)
		return
		;;
	esac
	if [ -n "$options" ]; then
		case $3 in
		lint) options+=' --strict --sarif --at --observed --trust' ;;
		test | verify) options+=' --trust' ;;
		sign) options+=' --key' ;;
		import) options+=' --from --profile --output --online' ;;
		explain) options+=' --policy --allow --at --trust' ;;
		show) options+=' --profile --trust' ;;
		diff) options+=' --at' ;;
		suggest) options+=' --profile --fold --allow-write --allow-private' ;;
		replay) options+=' --profile --at --trust' ;;
		fmt) options+=' --check --write' ;;
		esac
	fi
	if [ -n "$options" ] && [[ $1 == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$options" -- "$1")
		return
	fi
	compopt -o filenames
	mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

_eclusa_audit() { # current word, previous word, tool
	local options='--help' filters='--sandbox --host --verdict --reason --rule --profile --class --since --until --from --to'
	case $2 in
	--audit-dir | --pub | --key | -o) options='' ;;
	--format)
		mapfile -t COMPREPLY < <(compgen -W 'ocsf ocsf-bare ecs cef leef csv' -- "$1")
		return
		;;
	--verdict)
		mapfile -t COMPREPLY < <(compgen -W 'allow deny error observe' -- "$1")
		return
		;;
	--class)
		mapfile -t COMPREPLY < <(compgen -W 'http network dns process entity lifecycle' -- "$1")
		return
		;;
	-n | --before | --to | --sandbox | --host | --reason | --rule | --profile | --since | --until)
		return
		;;
	--from)
		return
		;;
	esac
	if [ -n "$options" ]; then
		case $3 in
		verify) options+=' --json --audit-dir --pub --signed --from' ;;
		keygen) options+=' --key' ;;
		prune) options+=' --before --audit-dir' ;;
		report) options+=' --audit-dir --from --to --since --until -o' ;;
		tail) options+=" -f -n --json --audit-dir $filters" ;;
		grep) options+=" --json --audit-dir $filters" ;;
		stats) options+=" -n --json --audit-dir $filters" ;;
		export) options+=" --format -o --audit-dir $filters" ;;
		esac
	fi
	if [ -n "$options" ] && [[ $1 == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$options" -- "$1")
		return
	fi
	compopt -o filenames
	mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

_eclusa_top() { # current word, previous word
	case $2 in
	--audit-dir | --export-state)
		compopt -o dirnames
		mapfile -t COMPREPLY < <(compgen -d -- "$1")
		return
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W '--once --json --audit-dir --export-state --help' -- "$1")
}

_eclusa_env() { # current word, previous word
	case $2 in
	--ca | --upstream-ca)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$1")
		return
		;;
	--dir)
		compopt -o dirnames
		mapfile -t COMPREPLY < <(compgen -d -- "$1")
		return
		;;
	--proxy-env)
		mapfile -t COMPREPLY < <(compgen -W 'on off' -- "$1")
		return
		;;
	--proxy)
		return
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W '--shell --json --dotenv --proxy --ca --dir --upstream-ca --proxy-env --help' -- "$1")
}

_eclusa() {
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} index
	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W 'run serve policy audit env top doctor --help --version' -- "$current")
		return
	fi
	case ${COMP_WORDS[1]} in
	run)
		for ((index = 2; index < COMP_CWORD; index++)); do
			if [ "${COMP_WORDS[index]}" = -- ]; then # the program's own words
				compopt -o filenames
				mapfile -t COMPREPLY < <(
					[ "$index" -eq $((COMP_CWORD - 1)) ] && compgen -c -- "$current"
					compgen -f -- "$current"
				)
				return
			fi
		done
		_eclusa_run "$current" "$previous"
		;;
	serve) _eclusa_serve "$current" "$previous" ;;
	policy)
		if [ "$COMP_CWORD" -eq 2 ]; then
			mapfile -t COMPREPLY < <(compgen -W 'lint test explain show diff suggest replay fmt sign verify import reload --help' -- "$current")
		else
			_eclusa_policy "$current" "$previous" "${COMP_WORDS[2]}"
		fi
		;;
	audit)
		if [ "$COMP_CWORD" -eq 2 ]; then
			mapfile -t COMPREPLY < <(compgen -W 'verify keygen tail grep stats export prune report --help' -- "$current")
		else
			_eclusa_audit "$current" "$previous" "${COMP_WORDS[2]}"
		fi
		;;
	env) _eclusa_env "$current" "$previous" ;;
	top) _eclusa_top "$current" "$previous" ;;
	doctor) mapfile -t COMPREPLY < <(compgen -W '--json --help' -- "$current") ;;
	esac
}

complete -F _eclusa eclusa
