/*
 * Foreign lists of hosts into policy text. What a list can't say in our language is told with its place and kept as a
 * comment, never dropped in silence and never made wider. One file a format; this is what they share.
 */
#ifndef ECLUSA_CLI_IMPORT_H
#define ECLUSA_CLI_IMPORT_H

#include "common/address.h"
#include "common/buf.h"
#include "common/failure.h"
#include "policy/arena.h"

#define IMPORT_BYTES_MAX   ((size_t)8 << 20) /* of one source */
#define IMPORT_HOSTS_MAX   20000             /* as many as a policy may have rules */
#define IMPORT_EXPECTS_MAX 2000
#define IMPORT_PLACE_BYTES 320

struct import_seen; /* an address that was met */

/** One import. Zero-initialise but for @profile. */
struct import {
	const char *profile; /* of the policy; NULL: rules before any profile, which only deny */
	struct arena arena;  /* what lives as long as the import */
	struct buf text;     /* policy text so far */
	struct buf said;     /* lines for standard error */
	struct import_seen *seen;
	size_t seen_count;
	size_t rules;
	size_t expects;
	size_t left_out; /* that could not be said */
	bool observe;    /* the open profile lets pass what it does not allow */
	bool refused;    /* taken apart the whole would mean something else: nothing is written */
	/** Addresses of a name, at most @max of them; NULL: none is looked up. */
	size_t (*look_up)(const char *name, struct address *to, size_t max);
	/** Read what a source names; NULL: sources may name nothing. @return 0 or a negative errno. */
	int (*read)(const char *path, struct buf *to);
};

void import_fini(struct import *im);

/** A comment line; control bytes are escaped. */
void import_comment(struct import *im, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/** Something of the source has no words here. @place "file:line", @what the foreign text. */
void import_left_out(struct import *im, const char *place, struct slice what, const char *why);
/** Nothing of the source can be taken. The first one is told. */
void import_refuse(struct import *im, const char *place, const char *why);
/** "file:line", kept by the import. */
const char *import_place(struct import *im, const char *file, unsigned line);
/** Open a section, if there is none yet, or another one. */
void import_profile(struct import *im, const char *name);

/** @return NULL if the statement loads in a profile, or why it does not, kept by the import. */
const char *import_judge(struct import *im, const char *statement);
/** A rule with the comment that says where it comes from; left out with the reason if it does not load. @return whether it was taken */
bool import_rule(struct import *im, const char *place, const char *statement);
/** An expect line, as long as there are not too many. */
void import_expect(struct import *im, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/** Importers: foreign text in, policy text out. @file for places. They stop at the first refusal. */
typedef void import_from(struct import *im, const char *file, struct slice text);

import_from import_squid;
import_from import_smokescreen;
import_from import_hosts;
import_from import_srt;
/** What `npm config list --json` said. */
import_from import_npm;
/** What `apt-get indextargets` said, in the form of IMPORT_APT_FORMAT. */
import_from import_apt;
#define IMPORT_APT_FORMAT "$(REPO_URI) $(TRUSTED) $(SOURCESENTRY)"
/** What `pip install --help` said of the index, and what `pip config list` says. */
import_from import_pip_help;
import_from import_pip_config;
/** What `pip install --dry-run --report -` said: the host of the files. */
import_from import_pip_report;

#endif
