/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of `weft list-subsys` share: the parsed options, and printing.
 */
#ifndef WEFT_CLI_LIST_SUBSYS_H
#define WEFT_CLI_LIST_SUBSYS_H

#include "host/mpath.h"

#include <stdbool.h>

struct list_subsys_options {
	struct mpath_config config;
	struct host_addr addrs[MPATH_PATHS_MAX];
	unsigned addr_count;
	bool is_json;
	bool is_verbose;
};

int cmd_list_subsys(int argc, char **argv);
/* Parses the command line, and queries the discovery service when one is given. NULL: the exit
 * status is in *ret_exit. */
const struct list_subsys_options *list_subsys_args(int argc, char **argv, int *ret_exit);
/* Prints the subsystem and its paths. Runs on the mpath's reactor. Returns the exit status. */
int list_subsys_print(const struct list_subsys_options *options, struct mpath *mpath);

#endif
