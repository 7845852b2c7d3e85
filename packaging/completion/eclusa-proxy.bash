# bash completion for eclusa-proxy(8).
# shellcheck shell=bash

_eclusa_proxy() {
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	COMPREPLY=()
	case $previous in
	--policy | --socket | --trust | --state-dir | --ca | --ca-key | --ca-out | --upstream-ca | --upstream-proxy-auth | --hosts | --audit-dir)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		return
		;;
	--listen)
		mapfile -t COMPREPLY < <(compgen -W '127.0.0.1:3128' -- "$current")
		return
		;;
	--profile | --workers | --leases | --ready | --resolver | --upstream-proxy)
		return
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W '--listen --serve --socket --workers --leases --ready --remote-clients --policy --profile --trust --watch --state-dir --ca-out
		--ca --ca-key --upstream-ca --upstream-proxy --upstream-proxy-auth --upstream-proxy-by-name
		--hosts --resolver --audit-dir --metrics --audit-decisions --audit-segment-size --audit-segment-age --help --version' -- "$current")
}

complete -F _eclusa_proxy eclusa-proxy
