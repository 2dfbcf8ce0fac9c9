/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options that select which controller to connect to and how. They are the same for every
 * sub-command, and the same as nvme-cli's where nvme-cli has them. All tables fill a struct
 * connect_options.
 */
#ifndef WEFT_CLI_CONNECT_ARGS_H
#define WEFT_CLI_CONNECT_ARGS_H

#include "cli/options.h"
#include "host/host.h"

#include <stdbool.h>

#define CLI_DEFAULT_NQN     "nqn.2026-11.io.weft:default"
#define CONNECT_QUEUES_MAX  256
#define CONNECT_KATO_MAX_S  4000000
#define CONNECT_HELP_NQN    "NQN of the subsystem (" CLI_DEFAULT_NQN ")"
#define CONNECT_HELP_KATO   "keep alive time-out, 0 for none (30)"
#define CONNECT_HELP_QUEUES "I/O queues, also --nr-io-queues (1)"

struct connect_options {
	const char *command; /* name of the sub-command, for messages */
	const char *address;
	uint16_t port;
	struct host_config config; /* addr.net is filled by connect_args_finish */
	bool has_nqn;
	bool has_host_nqn;
	bool has_host_id;
};

/* For sub-commands that only query and print. */
struct connect_query {
	struct connect_options connect;
	bool is_json;
};
extern const struct cli_option connect_query_options[]; /* -o, of a struct connect_query */

extern const struct cli_option connect_transport_options[];  /* -t */
extern const struct cli_option connect_where_options[];      /* -a -s -n: a subsystem */
extern const struct cli_option connect_host_options[];       /* -q -I -g -G */
extern const struct cli_option connect_queue_options[];      /* -i -Q */
extern const struct cli_option connect_keep_alive_options[]; /* -k */

void connect_args_init(struct connect_options *options, const char *command, const char *nqn,
		       uint16_t port, unsigned io_queues);
/* For tables with their own rows for -n and -k. */
int connect_nqn_take(void *to, const struct cli_given *given);
int connect_keep_alive_take(void *to, const struct cli_given *given);
/* Parses a path: "ADDR", "ADDR:PORT", "[ADDR]:PORT" or "NAME:PORT". 0 or -errno, without a message.
 * May block for name resolution. */
int connect_args_resolve(const char *text, uint16_t default_port, struct net_addr *ret_addr);
/* Resolves the address and fills in the host's names. 0, or -1 after a message. */
int connect_args_finish(struct connect_options *options);

#endif
