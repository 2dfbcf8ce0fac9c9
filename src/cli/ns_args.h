/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flags that say which namespace a sub-command works on and how it is opened (client/). Shared
 * by `weft attach` and `weft copy`. Main thread.
 */
#ifndef WEFT_CLI_NS_ARGS_H
#define WEFT_CLI_NS_ARGS_H

#include "client/ns_handle.h"

#include <getopt.h>

/* How every namespace is opened; for getopt_long. */
#define NS_ARGS_SHORT "q:I:gGp:"
enum ns_args_option {
	NS_ARGS_PROFILE = 512,
	NS_ARGS_SET,
	NS_ARGS_PATH,
	NS_ARGS_NSID,
};
/* clang-format off */
#define NS_ARGS_LONG                                                                               \
	{"hostnqn", required_argument, NULL, 'q'},                                                 \
	{"hostid", required_argument, NULL, 'I'},                                                  \
	{"hdr-digest", no_argument, NULL, 'g'},                                                    \
	{"data-digest", no_argument, NULL, 'G'},                                                   \
	{"policy", required_argument, NULL, 'p'},                                                  \
	{"profile", required_argument, NULL, NS_ARGS_PROFILE},                                     \
	{"set", required_argument, NULL, NS_ARGS_SET}
/* Where one namespace is. */
#define NS_ARGS_WHERE_SHORT "n:d:"
#define NS_ARGS_WHERE_LONG                                                                         \
	{"nqn", required_argument, NULL, 'n'},                                                     \
	{"discovery", required_argument, NULL, 'd'},                                               \
	{"path", required_argument, NULL, NS_ARGS_PATH},                                           \
	{"nsid", required_argument, NULL, NS_ARGS_NSID}
/* clang-format on */

#define NS_ARGS_HELP                                                                               \
	"  -p, --policy POLICY       numa, round-robin, queue-depth or latency (queue-depth)\n"    \
	"      --profile PROFILE     default, training or database; see explain-timeouts\n"        \
	"      --set NAME=VALUE      change one time-out; may be repeated\n"                       \
	"  -q, --hostnqn NQN         who we are (/etc/nvme/hostnqn, or made from the machine)\n"   \
	"  -I, --hostid UUID         our identifier (/etc/nvme/hostid, or made likewise)\n"        \
	"  -g, --hdr-digest          ask for header digests\n"                                     \
	"  -G, --data-digest         ask for data digests\n"

/* Takes the option `c` of getopt_long if it is one of ours. 1: taken; 0: not ours; -1: wrong, and a
 * message was printed. */
int ns_args_take(struct ns_options *options, int c, const char *value);
int ns_args_take_where(const struct ns_options *options, struct ns_where *where, int c,
		       const char *value);
/* After the last option: what was not said is the default. */
void ns_args_finish_where(struct ns_where *where);

#endif
