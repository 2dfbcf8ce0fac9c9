/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flags that say which controller to connect to and how, the same for every sub-command and
 * the same as nvme-cli's where it has them.
 */
#ifndef WEFT_CLI_CONNECT_ARGS_H
#define WEFT_CLI_CONNECT_ARGS_H

#include "host/host.h"

#include <getopt.h>
#include <stdbool.h>

#define CLI_DEFAULT_NQN "nqn.2026-11.io.weft:default"

/* For getopt_long; a command adds its own. */
#define CONNECT_ARGS_SHORT "t:a:s:n:q:I:gGi:Q:k:"
/* clang-format off */
#define CONNECT_ARGS_LONG                                                                          \
	{"transport", required_argument, NULL, 't'},                                               \
	{"traddr", required_argument, NULL, 'a'},                                                  \
	{"trsvcid", required_argument, NULL, 's'},                                                 \
	{"nqn", required_argument, NULL, 'n'},                                                     \
	{"hostnqn", required_argument, NULL, 'q'},                                                 \
	{"hostid", required_argument, NULL, 'I'},                                                  \
	{"hdr-digest", no_argument, NULL, 'g'},                                                    \
	{"data-digest", no_argument, NULL, 'G'},                                                   \
	{"nr-io-queues", required_argument, NULL, 'i'},                                            \
	{"queues", required_argument, NULL, 'i'},                                                  \
	{"queue-size", required_argument, NULL, 'Q'},                                              \
	{"keep-alive-tmo", required_argument, NULL, 'k'}
/* clang-format on */

#define CONNECT_ARGS_HELP                                                                          \
	"  -t, --transport tcp       the only transport so far\n"                                  \
	"  -a, --traddr ADDR         address or name of the target (127.0.0.1)\n"                  \
	"  -s, --trsvcid PORT        its port (%u)\n"                                              \
	"  -n, --nqn NQN             the subsystem\n"                                              \
	"                            (%s)\n"                                                       \
	"  -q, --hostnqn NQN         who we are (/etc/nvme/hostnqn, or made from the machine)\n"   \
	"  -I, --hostid UUID         our identifier (/etc/nvme/hostid, or made likewise)\n"        \
	"  -g, --hdr-digest          ask for header digests\n"                                     \
	"  -G, --data-digest         ask for data digests\n"                                       \
	"  -k, --keep-alive-tmo SEC  keep alive time-out, 0 for none (30)\n"

struct connect_options {
	const char *command; /* the sub-command, for messages */
	const char *address;
	uint16_t port;
	struct host_config config; /* addr is filled by connect_args_finish */
	bool has_host_nqn;
	bool has_host_id;
};

void connect_args_init(struct connect_options *options, const char *command, const char *nqn,
		       uint16_t port, unsigned io_queues);
/* Takes the option `c` of getopt_long if it is one of ours. 1: taken; 0: not ours; -1: wrong, and
 * a message was printed. */
int connect_args_take(struct connect_options *options, int c, const char *value);
/*
 * For commands that only ask and print: our flags, --output-format and --help. Returns true to go
 * on, or false with the exit status in *ret_exit.
 */
bool connect_args_parse_query(struct connect_options *options, int argc, char **argv,
			      void (*print_help)(void), bool *ret_is_json, int *ret_exit);
/* A path: "ADDR", "ADDR:PORT", "[ADDR]:PORT" or "NAME:PORT". 0 or -errno, without a message. */
int connect_args_resolve(const char *text, uint16_t default_port, struct net_addr *ret_addr);
/* Resolves the address and fills in the host's names. 0, or -1 after a message. */
int connect_args_finish(struct connect_options *options);

#endif
