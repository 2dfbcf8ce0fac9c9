/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of `weft serve`: which there are, what they mean, and which do not go together.
 * Checks only what can be known from the text; whether it makes a target is config_from_flags'
 * business, so that a file and flags obey one set of rules.
 *
 * Main thread, before anything is started.
 */
#include "base/log.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "cli/serve.h"
#include "control/state.h"

#include <stdlib.h>
#include <string.h>

#define SERVE_REACTORS_MAX 256
#define SERVE_SPIN_MAX_US  1000000
#define SERVE_SPIN_US      50

enum serve_option {
	OPTION_LISTEN = 1000,
	OPTION_NS,
	OPTION_NQN,
	OPTION_ALLOW_HOST,
	OPTION_STATE,
	OPTION_RESET,
	OPTION_MERGE,
	OPTION_REACTORS,
	OPTION_SPIN_US,
	OPTION_PIN,
	OPTION_DISCOVERY,
	OPTION_CHECK,
	OPTION_SELF_CHECK,
	OPTION_RIGHTS,
	OPTION_RUN_FOR,
	OPTION_LOG_LEVEL,
	OPTION_API_SOCKET,
	OPTION_API_LISTEN,
	OPTION_API_TOKEN_FILE,
};

static const struct option serve_options[] = {
	{"config", required_argument, NULL, 'c'},
	{"listen", required_argument, NULL, OPTION_LISTEN},
	{"ns", required_argument, NULL, OPTION_NS},
	{"nqn", required_argument, NULL, OPTION_NQN},
	{"allow-host", required_argument, NULL, OPTION_ALLOW_HOST},
	{"rights", required_argument, NULL, OPTION_RIGHTS},
	{"state", required_argument, NULL, OPTION_STATE},
	{"reset", no_argument, NULL, OPTION_RESET},
	{"merge", no_argument, NULL, OPTION_MERGE},
	{"reactors", required_argument, NULL, OPTION_REACTORS},
	{"spin-us", required_argument, NULL, OPTION_SPIN_US},
	{"pin", no_argument, NULL, OPTION_PIN},
	{"discovery", required_argument, NULL, OPTION_DISCOVERY},
	{"check", no_argument, NULL, OPTION_CHECK},
	{"self-check", no_argument, NULL, OPTION_SELF_CHECK},
	{"run-for", required_argument, NULL, OPTION_RUN_FOR},
	{"log-level", required_argument, NULL, OPTION_LOG_LEVEL},
	{"api-socket", required_argument, NULL, OPTION_API_SOCKET},
	{"api-listen", required_argument, NULL, OPTION_API_LISTEN},
	{"api-token-file", required_argument, NULL, OPTION_API_TOKEN_FILE},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

const struct cli_options serve_cli_options = {"c:h", serve_options};

static const char serve_help[] =
	"Usage: weft serve [-c FILE | --ns SPEC... [--nqn NQN] [--listen ADDR:PORT]...] "
	"[OPTION]...\n"
	"\n"
	"Exports namespaces over NVMe/TCP until SIGTERM or SIGINT; SIGHUP reads FILE again.\n"
	"The state folder keeps the state with all changes made since. Restarting with the same\n"
	"FILE or flags, or with none, uses that saved state; different ones are refused unless\n"
	"--merge or --reset is given. The first start with neither -c nor --ns exports one 1 GiB\n"
	"namespace in that folder, on 127.0.0.1:4420.\n"
	"\n"
	"  -c, --config FILE         what to export, as JSON; see weft.json(5)\n"
	"      --listen ADDR:PORT    where to listen (127.0.0.1:4420); repeatable\n"
	"      --ns SPEC             a namespace, numbered from 1; repeatable:\n"
	"                            file:PATH[,size=10G][,block=4096][,readonly]\n"
	"                            mem:SIZE[,block=4096][,huge]   null:SIZE[,block=4096]\n"
	"                            fault:RULES@SPEC (for tests, see weft-serve(1))\n"
	"      --nqn NQN             name of the subsystem (nqn.2026-11.io.weft:default)\n"
	"      --allow-host NQN      only hosts of these names may connect; repeatable\n"
	"      --rights HOST=RIGHTS  what a host, or any, may change of shared state: all or some\n"
	"                            of write-protect,format,label,namespaces (none); repeatable\n"
	"      --discovery ADDR:PORT where discovery answers besides the listeners, or none\n"
	"                            (the first listener's address, port 8009)\n"
	"      --state DIR           state folder ($XDG_STATE_HOME/weft, root: /var/lib/weft)\n"
	"      --merge               apply what FILE or the flags add and change over the saved\n"
	"                            state; nothing is removed\n"
	"      --reset               replace the saved state by FILE or the flags; a copy of it\n"
	"                            stays in the state folder\n"
	"      --api-socket PATH     where weft ctl and the REST API reach the target, or none\n"
	"                            (weft.sock in the state folder)\n"
	"      --api-listen ADDR:PORT  the REST API over TCP as well, with a bearer token\n"
	"      --api-token-file FILE the token, 16 characters at least\n"
	"      --reactors N          threads that do the work (one per CPU)\n"
	"      --spin-us N           longest busy wait before a thread sleeps, 0 for none (50)\n"
	"      --pin                 a CPU for each reactor: for a machine with no other work\n"
	"      --check               check and explain the configuration, start nothing\n"
	"      --self-check          write, verify and measure a scratch namespace first\n"
	"      --run-for TIME        end after this time (5s, 2m)\n"
	"      --log-level LEVEL     error, warn, info or debug (info)\n"
	"  -h, --help                this text\n";

static int list_add(struct serve_list *list, const char *option, const char *value)
{
	if (list->count == SERVE_LIST_MAX) {
		cli_usage_error("serve", "%s: more than %d of them; use -c FILE", option,
				SERVE_LIST_MAX);
		return -1;
	}
	list->items[list->count++] = value;
	return 0;
}

static int number_take(const char *option, const char *value, uint64_t min, uint64_t max,
		       uint32_t *ret_number)
{
	uint64_t number;

	if (text_parse_u64(value, max, &number) || number < min) {
		cli_usage_error("serve", "%s: \"%s\" must be a number from %llu to %llu", option,
				value, (unsigned long long)min, (unsigned long long)max);
		return -1;
	}
	*ret_number = (uint32_t)number;
	return 0;
}

static int log_level_take(const char *value)
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
		if (strcmp(value, levels[i].name) == 0) {
			log_set_level(levels[i].level);
			return 0;
		}
	}
	cli_value_error("serve", "log-level", value);
	return -1;
}

static int state_dir_take(struct serve_args *args, const char *value)
{
	args->has_state_dir = true;
	if (value[0] != 0 &&
	    text_copy(args->state_dir, sizeof(args->state_dir), value) < sizeof(args->state_dir))
		return 0;
	cli_usage_error("serve", "--state: \"%s\" is not the name of a folder", value);
	return -1;
}

static int start_take(struct serve_args *args, enum daemon_start start)
{
	if (args->start == DAEMON_SAME || args->start == start) {
		args->start = start;
		return 0;
	}
	cli_usage_error("serve", "--reset replaces the saved state and --merge keeps it; use one "
				 "of them");
	return -1;
}

static int run_for_take(struct serve_args *args, const char *value)
{
	if (text_parse_duration_ms(value, &args->run_for_ms) == 0 && args->run_for_ms > 0)
		return 0;
	cli_usage_error("serve", "--run-for: \"%s\" must be a time such as 5s or 2m", value);
	return -1;
}

static int api_listen_take(struct serve_args *args, const char *value)
{
	args->api.has_tcp = true;
	if (strchr(value, ':') && net_addr_parse(value, 0, &args->api.tcp) == 0)
		return 0;
	cli_usage_error("serve", "--api-listen: \"%s\" must be ADDRESS:PORT", value);
	return -1;
}

/* 0 or, after a message, -1. */
static int option_take(struct serve_args *args, int c, const char *value)
{
	switch (c) {
	case 'c':
		/* Read again at SIGHUP and compared at the next start. */
		if (strcmp(value, "-") == 0) {
			cli_usage_error("serve",
					"-c wants a file, not standard input: it is read again at "
					"SIGHUP (./- for one named -)");
			return -1;
		}
		args->config_path = value;
		return 0;
	case OPTION_LISTEN:
		return list_add(&args->listens, "--listen", value);
	case OPTION_NS:
		return list_add(&args->namespaces, "--ns", value);
	case OPTION_NQN:
		args->nqn = value;
		return 0;
	case OPTION_ALLOW_HOST:
		return list_add(&args->hosts, "--allow-host", value);
	case OPTION_RIGHTS:
		return list_add(&args->rights, "--rights", value);
	case OPTION_STATE:
		return state_dir_take(args, value);
	case OPTION_RESET:
		return start_take(args, DAEMON_RESET);
	case OPTION_MERGE:
		return start_take(args, DAEMON_MERGE);
	case OPTION_REACTORS:
		return number_take("--reactors", value, 1, SERVE_REACTORS_MAX,
				   &args->reactor_count);
	case OPTION_SPIN_US:
		return number_take("--spin-us", value, 0, SERVE_SPIN_MAX_US, &args->spin_max_us);
	case OPTION_PIN:
		args->is_pinned = true;
		return 0;
	case OPTION_DISCOVERY:
		args->discovery = value;
		return 0;
	case OPTION_CHECK:
		args->is_check = true;
		return 0;
	case OPTION_SELF_CHECK:
		args->is_self_check = true;
		return 0;
	case OPTION_RUN_FOR:
		return run_for_take(args, value);
	case OPTION_LOG_LEVEL:
		return log_level_take(value);
	case OPTION_API_SOCKET:
		args->api.socket_path = value;
		return 0;
	case OPTION_API_LISTEN:
		return api_listen_take(args, value);
	case OPTION_API_TOKEN_FILE:
		args->api.token_path = value;
		return 0;
	default:
		cli_usage_hint("serve");
		return -1;
	}
}

static int args_agree(const struct serve_args *args)
{
	if (args->config_path && (args->namespaces.count > 0 || args->listens.count > 0 ||
				  args->hosts.count > 0 || args->rights.count > 0 || args->nqn)) {
		cli_usage_error("serve",
				"-c FILE says what --ns, --nqn, --listen, --allow-host and "
				"--rights would; use one or the other");
		return -1;
	}
	if (args->start == DAEMON_MERGE && !args->config_path && args->namespaces.count == 0 &&
	    args->listens.count == 0 && args->hosts.count == 0 && args->rights.count == 0 &&
	    !args->nqn) {
		cli_usage_error("serve", "--merge needs something to merge: -c FILE, --ns, --nqn, "
					 "--listen, --allow-host or --rights");
		return -1;
	}
	if (args->api.has_tcp && !args->api.token_path) {
		cli_usage_error("serve", "--api-listen needs --api-token-file: whoever reaches the "
					 "address could change the target otherwise");
		return -1;
	}
	if (args->api.token_path && !args->api.has_tcp) {
		cli_usage_error("serve", "--api-token-file is for --api-listen");
		return -1;
	}
	return 0;
}

int serve_args_parse(int argc, char **argv, struct serve_args *ret_args, int *ret_exit)
{
	int c;

	memset(ret_args, 0, sizeof(*ret_args));
	ret_args->spin_max_us = SERVE_SPIN_US;
	*ret_exit = CLI_USAGE;
	while ((c = cli_getopt("serve", &serve_cli_options, argc, argv)) != -1) {
		if (c == 'h') {
			fputs(serve_help, stdout);
			*ret_exit = CLI_OK;
			return 1;
		}
		if (option_take(ret_args, c, optarg) < 0)
			return 1;
	}
	if (optind < argc) {
		cli_usage_error("serve", "\"%s\" was not expected", argv[optind]);
		return 1;
	}
	if (args_agree(ret_args) < 0)
		return 1;
	if (!ret_args->has_state_dir &&
	    state_default_dir(ret_args->state_dir, sizeof(ret_args->state_dir))) {
		cli_usage_error("serve", "neither HOME nor XDG_STATE_HOME is set; name a state "
					 "folder with --state");
		return 1;
	}
	return 0;
}
