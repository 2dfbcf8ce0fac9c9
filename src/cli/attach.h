/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of `weft attach` share: what was asked for.
 */
#ifndef WEFT_CLI_ATTACH_H
#define WEFT_CLI_ATTACH_H

#include "cli/ns_args.h"

struct attach_options {
	struct ns_options ns;
	struct ns_where where;
	const char *nbd_socket;  /* NULL: not NBD */
	const char *export_name; /* of NBD */
	bool is_ublk;
	int ublk_id; /* N of /dev/ublkbN; -1: the kernel's choice */
	bool is_read_only;
};

/* Returns true to go on, or false with the exit status in *ret_exit. */
bool attach_args(int argc, char **argv, struct attach_options *options, int *ret_exit);

#endif
