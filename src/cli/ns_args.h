/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which namespace a sub-command works on, by flags or by a URL, and how it is opened through
 * libweft. Shared by `weft attach` and `weft copy`. Main thread.
 *
 * A URL is nvme://ADDR[:PORT][,ADDR[:PORT]...]/NQN/NSID: every address is one path.
 */
#ifndef WEFT_CLI_NS_ARGS_H
#define WEFT_CLI_NS_ARGS_H

#include "weft/weft.h"

#include <getopt.h>
#include <stdbool.h>

#define NS_ARGS_PATHS_MAX     32
#define NS_ARGS_TEXT_BYTES    4096
#define NS_ARGS_TIMEOUT_BYTES 512

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

/* Where a namespace is. The pointers point into text, or at what the caller gave. */
struct ns_where {
	const char *nqn; /* NULL with a discovery service: the only one that it offers */
	struct weft_path paths[NS_ARGS_PATHS_MAX];
	unsigned path_count;
	struct weft_path discovery; /* address NULL: none */
	uint32_t nsid;              /* 0: the only one that there is */
	char text[NS_ARGS_TEXT_BYTES];
	size_t text_used;
};

struct ns_options {
	const char *command; /* the sub-command, for messages */
	const char *host_nqn;
	const char *host_id;
	const char *profile;
	const char *policy;
	bool header_digest;
	bool data_digest;
	bool is_quiet; /* does not tell what happens to paths */
	int event_fd;  /* an eventfd that is written to on every event, or 0: none */
	char timeouts[NS_ARGS_TIMEOUT_BYTES]; /* "name=value,..." */
};

/* An open namespace. */
struct ns_handle {
	struct weft_subsystem *subsystem;
	struct weft_ns *ns;
	struct weft_ns_info info;
};

/* Takes the option `c` of getopt_long if it is one of ours. 1: taken; 0: not ours; -1: wrong, and a
 * message was printed. */
int ns_args_take(struct ns_options *options, int c, const char *value);
int ns_args_take_where(const struct ns_options *options, struct ns_where *where, int c,
		       const char *value);
/* After the last option: what was not said is the default. 0, or -1 after a message. */
int ns_args_finish_where(const struct ns_options *options, struct ns_where *where);
bool ns_args_is_url(const char *text);
/* 0, or -1 after a message. */
int ns_args_parse_url(const struct ns_options *options, const char *text, struct ns_where *where);

/* 0 or -errno, after a message. `callbacks` says how requests end. */
int ns_instance_create(const struct ns_options *options, enum weft_callbacks callbacks,
		       struct weft **ret_weft);
/* What happens to paths is told on standard error. 0 or -errno, after a message. */
int ns_handle_open(struct weft *weft, const struct ns_options *options,
		   const struct ns_where *where, struct ns_handle *ret_handle);
void ns_handle_close(struct ns_handle *handle);

#endif
