# bash completion for eclusa-export(8).
# shellcheck shell=bash

_eclusa_export() {
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	COMPREPLY=()
	case $previous in
	--config | --check)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		return
		;;
	esac
	mapfile -t COMPREPLY < <(compgen -W '--config --once --metrics --check --json --help --version' -- "$current")
}

complete -F _eclusa_export eclusa-export
