/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of `weft serve`, and which options exclude each other. Checks only the strings.
 * config_from_flags checks whether they make a valid target, so that the same rules hold for a file
 * and for flags.
 *
 * Main thread, before anything is started.
 */
#include "base/log.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/serve.h"
#include "daemon/state.h"

#include <stdlib.h>
#include <string.h>

#define COMMAND            "serve"
#define SERVE_REACTORS_MAX 256
#define SERVE_SPIN_MAX_US  1000000
#define SERVE_SPIN_US      50

/* ---- options -------------------------------------------------------------------------------- */

/* Appends to the list at the row's offset. */
static int list_take(void *to, const struct cli_given *given)
{
	void *field = (char *)to + given->option->offset;
	struct serve_list *list = field;

	if (list->count == SERVE_LIST_MAX)
		return cli_given_error(given, "was given more than %d times; use -c FILE",
				       SERVE_LIST_MAX);
	list->items[list->count++] = given->value;
	return 0;
}

static int log_level_take(void *to, const struct cli_given *given)
{
	static const struct {
		const char *name;
		enum log_level level;
	} levels[] = {
		{"error", LOG_LEVEL_ERROR},
		{"warn", LOG_LEVEL_WARN},
		{"info", LOG_LEVEL_INFO},
		{"debug", LOG_LEVEL_DEBUG},
	};

	for (unsigned i = 0; i < ARRAY_LEN(levels); i++) {
		if (strcmp(given->value, levels[i].name) == 0) {
			log_set_level(levels[i].level);
			return 0;
		}
	}
	return cli_words_error(given);
}

static int config_take(void *to, const struct cli_given *given)
{
	struct serve_args *args = to;

	/* The file is read again at SIGHUP and compared at the next start. */
	if (strcmp(given->value, "-") == 0) {
		cli_usage_error(given->command,
				"-c must be a file, not standard input: it is read again at SIGHUP "
				"(./- for one named -)");
		return -1;
	}
	args->config_path = given->value;
	return 0;
}

static int state_dir_take(void *to, const struct cli_given *given)
{
	struct serve_args *args = to;

	args->has_state_dir = true;
	if (given->value[0] != 0 && text_copy(args->state_dir, sizeof(args->state_dir),
					      given->value) < sizeof(args->state_dir))
		return 0;
	return cli_given_error(given, "must be the name of a folder, not \"%s\"", given->value);
}

static int start_take(struct serve_args *args, enum daemon_start start)
{
	if (args->start == DAEMON_SAME || args->start == start) {
		args->start = start;
		return 0;
	}
	cli_usage_error(COMMAND, "--reset replaces the saved state and --merge keeps it; use one "
				 "of them");
	return -1;
}

static int reset_take(void *to, const struct cli_given *given)
{
	return start_take(to, DAEMON_RESET);
}

static int merge_take(void *to, const struct cli_given *given)
{
	return start_take(to, DAEMON_MERGE);
}

static int api_listen_take(void *to, const struct cli_given *given)
{
	struct serve_args *args = to;

	args->api.has_tcp = true;
	if (strchr(given->value, ':') && net_addr_parse(given->value, 0, &args->api.tcp) == 0)
		return 0;
	return cli_given_error(given, "must be ADDRESS:PORT, not \"%s\"", given->value);
}

#define ARGS        struct serve_args
#define LIST(field) .take = list_take, CLI_FIELD(ARGS, field, struct serve_list)

static const struct cli_option export_options[] = {
	{"config", 'c', "FILE", "configuration, as JSON; see weft.json(5)", .is_path = true,
	 .take = config_take},
	{"listen", 0, "ADDR[:PORT]", "address to listen on (127.0.0.1:4420); repeatable",
	 LIST(listens)},
	{"ns", 0, "SPEC",
	 "a namespace, numbered from 1; repeatable:\n"
	 "file:PATH[,size=10G][,block=4096][,readonly]\n"
	 "mem:SIZE[,block=4096][,huge]\n"
	 "null:SIZE[,block=4096]\n"
	 "fault:RULES@SPEC (for tests, see weft-serve(1))",
	 LIST(namespaces)},
	{"nqn", 0, "NQN", "name of the subsystem (" TARGET_DEFAULT_NQN ")", CLI_TEXT(ARGS, nqn)},
	{"allow-host", 0, "NQN", "allow only this host to connect (any host); repeatable",
	 LIST(hosts)},
	{"rights", 0, "HOST=RIGHTS",
	 "rights of a host, or of any host, on shared state: all or some of "
	 "write-protect,format,label,namespaces (none); repeatable",
	 LIST(rights)},
	{"discovery", 0, "ADDR[:PORT]|none",
	 "extra discovery listener (the first listener's address, port 8009)",
	 CLI_TEXT(ARGS, discovery)},
	{NULL},
};

static const struct cli_option state_options[] = {
	{"state", 0, "DIR", "state folder ($XDG_STATE_HOME/weft, root: /var/lib/weft)",
	 .is_path = true, .take = state_dir_take},
	{"merge", 0, NULL,
	 "add and change the elements of FILE or the flags in the saved state; remove "
	 "nothing",
	 .take = merge_take},
	{"reset", 0, NULL,
	 "replace the saved state by FILE or the flags; keep a copy in the state folder",
	 .take = reset_take},
	{"api-socket", 0, "PATH|none",
	 "socket of weft ctl and the REST API (weft.sock in the state folder)", .is_path = true,
	 CLI_TEXT(ARGS, api.socket_path)},
	{"api-listen", 0, "ADDR:PORT", "also serve the REST API over TCP, with a bearer token",
	 .take = api_listen_take},
	{"api-token-file", 0, "FILE", "file with the token, at least 16 characters",
	 .is_path = true, CLI_TEXT(ARGS, api.token_path)},
	{NULL},
};

static const struct cli_option run_options[] = {
	{"reactors", 0, "N", "number of reactor threads (one per CPU)",
	 CLI_U32(ARGS, reactor_count, 1, SERVE_REACTORS_MAX)},
	{"spin-us", 0, "N",
	 "longest spin of a reactor before it sleeps, in us; 0: never spin (" CLI_DIGITS(
		 SERVE_SPIN_US) ")",
	 CLI_U32(ARGS, spin_max_us, 0, SERVE_SPIN_MAX_US)},
	{"pin", 0, NULL, "pin each reactor to a CPU; only for a dedicated machine",
	 CLI_SWITCH(ARGS, is_pinned)},
	{"check", 0, NULL, "check and print the configuration, start nothing",
	 CLI_SWITCH(ARGS, is_check)},
	{"self-check", 0, NULL, "write, verify and measure a scratch namespace first",
	 CLI_SWITCH(ARGS, is_self_check)},
	{"run-for", 0, "TIME", "exit after this time (5s, 2m)", CLI_DURATION(ARGS, run_for_ms, 1)},
	{"log-level", 0, "LEVEL", "{words} (info)", "error warn info debug",
	 .take = log_level_take},
	{NULL},
};

static const struct cli_group groups[] = {
	{"What is exported", export_options, 0},
	{"State and management", state_options, 0},
	{"The process", run_options, 0},
};

const struct cli_command serve_command = {
	.name = COMMAND,
	.summary = "export namespaces over NVMe/TCP",
	.usage = "[-c FILE | --ns SPEC... [--nqn NQN] [--listen ADDR[:PORT]]...] [OPTION]...",
	.about =
		"Exports namespaces over NVMe/TCP until SIGTERM or SIGINT; SIGHUP reads FILE\n"
		"again. The state folder keeps the state with all changes made since. A restart\n"
		"with the same FILE or flags, or with none, uses the saved state. Another FILE or\n"
		"other flags are refused unless --merge or --reset is given. The first start with\n"
		"neither -c nor --ns exports one 1 GiB namespace in the state folder, on\n"
		"127.0.0.1:4420.\n",
	.groups = groups,
	.group_count = ARRAY_LEN(groups),
	.fn = cmd_serve,
};

/* ---- parsing ------------------------------------------------------------------------------- */

static int args_agree(const struct serve_args *args)
{
	if (args->config_path && (args->namespaces.count > 0 || args->listens.count > 0 ||
				  args->hosts.count > 0 || args->rights.count > 0 || args->nqn)) {
		cli_usage_error(COMMAND, "-c FILE cannot be combined with --ns, --nqn, --listen, "
					 "--allow-host or --rights");
		return -1;
	}
	if (args->start == DAEMON_MERGE && !args->config_path && args->namespaces.count == 0 &&
	    args->listens.count == 0 && args->hosts.count == 0 && args->rights.count == 0 &&
	    !args->nqn) {
		cli_usage_error(COMMAND, "--merge needs something to merge: -c FILE, --ns, --nqn, "
					 "--listen, --allow-host or --rights");
		return -1;
	}
	if (args->api.has_tcp && !args->api.token_path) {
		cli_usage_error(COMMAND, "--api-listen needs --api-token-file: without a token "
					 "anyone who reaches the address could change the target");
		return -1;
	}
	if (args->api.token_path && !args->api.has_tcp) {
		cli_usage_error(COMMAND, "--api-token-file needs --api-listen");
		return -1;
	}
	return 0;
}

bool serve_args_parse(int argc, char **argv, struct serve_args *args, int *ret_exit)
{
	memset(args, 0, sizeof(*args));
	args->spin_max_us = SERVE_SPIN_US;
	if (!cli_parse(&serve_command, argc, argv, args, ret_exit))
		return false;
	*ret_exit = CLI_USAGE;
	if (args_agree(args) < 0)
		return false;
	if (!args->has_state_dir && state_default_dir(args->state_dir, sizeof(args->state_dir))) {
		cli_usage_error(COMMAND, "neither HOME nor XDG_STATE_HOME is set; name a state "
					 "folder with --state");
		return false;
	}
	return true;
}
