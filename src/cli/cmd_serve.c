/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft serve`: makes a configuration from the file or the flags, then runs the daemon. The daemon
 * chooses between this configuration and the kept state (daemon/start.h), and uses the main thread
 * as the control reactor. The hooks here run on that thread: self-check, banner.
 */
#include "base/log_writer.h"
#include "base/text.h"
#include "base/tool_error.h"
#include "cli/cli.h"
#include "cli/serve.h"
#include "daemon/start.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct serve {
	struct serve_args args;
	struct selfcheck *check; /* NULL: not requested, or ended */
};

/* The configuration from the command line, and its hash. */
struct source {
	struct config *config;
	json_t *document; /* unmodified */
	bool is_named;    /* a file or flags were given; false: the embedded default */
	char hash[STORE_HASH_BYTES];
};

static int source_from_file(const char *path, struct source *source, struct config_errors *errors)
{
	int res = start_read_file(path, &source->document, source->hash, errors);

	return res < 0 ? res : config_load_json(source->document, &source->config, errors);
}

/* The embedded default: one file in the state folder, created at the first start. */
static int default_spec(const struct serve_args *args, char **ret_spec,
			struct config_errors *errors)
{
	if (strchr(args->state_dir, ',')) {
		config_errors_add(errors,
				  "--state %s: the folder's name contains a comma, which "
				  "separates options of a medium; choose another",
				  args->state_dir);
		return -EINVAL;
	}
	if (asprintf(ret_spec, "file:%s/%s,size=%s", args->state_dir, CONFIG_DEFAULT_NS_FILE,
		     CONFIG_DEFAULT_NS_BYTES) < 0)
		return -ENOMEM;
	return 0;
}

static int source_make(const struct serve_args *args, struct source *source,
		       struct config_errors *errors)
{
	struct config_flags flags = {
		.nqn = args->nqn,
		.listens = args->listens.items,
		.listen_count = args->listens.count,
		.namespaces = args->namespaces.items,
		.ns_count = args->namespaces.count,
		.hosts = args->hosts.items,
		.host_count = args->hosts.count,
		.rights = args->rights.items,
		.rights_count = args->rights.count,
	};
	char *spec = NULL;
	int res = 0;

	*source = (struct source){0};
	source->is_named = args->config_path || flags.nqn || flags.listen_count > 0 ||
			   flags.ns_count > 0 || flags.host_count > 0 || flags.rights_count > 0;
	if (args->config_path)
		return source_from_file(args->config_path, source, errors);
	start_hash_flags(&flags, source->hash);
	if (source->is_named)
		source->document = config_flags_document(&flags, errors);
	if (source->is_named && !source->document)
		return -EINVAL;
	if (flags.ns_count == 0) {
		res = default_spec(args, &spec, errors);
		flags.namespaces = (const char *const *)&spec;
		flags.ns_count = 1;
	}
	if (res == 0)
		res = config_from_flags(&flags, &source->config, errors);
	free(spec);
	return res;
}

/* Chooses the discovery-only port. 0 or, after a message, -1. */
static int discovery_choose(const struct serve_args *args, struct daemon_options *options)
{
	if (args->discovery && strcmp(args->discovery, "none") == 0)
		return 0;
	options->has_discovery = true;
	options->discovery_is_auto = !args->discovery;
	if (!args->discovery ||
	    net_addr_parse(args->discovery, CONFIG_DISCOVERY_PORT, &options->discovery) == 0)
		return 0;
	cli_usage_error("serve", "--discovery: \"%s\" must be ADDRESS:PORT or none",
			args->discovery);
	return -1;
}

static void errors_explain(const struct serve_args *args, const struct config_errors *errors)
{
	tool_error("serve", "%s: %u error%s", args->config_path ? args->config_path : "the options",
		   errors->count, errors->count == 1 ? "" : "s");
	config_errors_print(errors, stderr);
}

static int check_print(const struct serve_args *args, struct config *config,
		       const struct daemon_options *options)
{
	struct net_addr discovery = options->discovery;

	if (options->has_discovery &&
	    (!options->discovery_is_auto || daemon_choose_discovery(config, &discovery)))
		config_add_discovery_port(config, &discovery);
	printf("%s: valid\n", args->config_path ? args->config_path : "the options");
	serve_config_print(stdout, config);
	config_free(config);
	return CLI_OK;
}

static void serve_ready(struct daemon *daemon)
{
	serve_banner_print(stdout, daemon_target(daemon));
	daemon_serve(daemon);
}

static void serve_checked(struct daemon *daemon, bool is_good, void *arg)
{
	if (is_good)
		serve_ready(daemon);
	else
		daemon_stop(daemon, CLI_FAILED);
}

static void serve_started(struct daemon *daemon, void *arg)
{
	struct serve *serve = arg;

	if (serve->check)
		selfcheck_start(serve->check, daemon, serve_checked, serve);
	else
		serve_ready(daemon);
}

static void serve_stopping(void *arg)
{
	struct serve *serve = arg;

	if (serve->check)
		selfcheck_cancel(serve->check);
}

static void serve_ended(void *arg)
{
	struct serve *serve = arg;

	if (serve->check)
		selfcheck_end(serve->check);
	serve->check = NULL;
}

/* Runs the daemon. Takes over source->config. */
static int serve_run(struct serve *serve, const struct source *source,
		     struct daemon_options *options)
{
	int status;

	if (serve->args.is_self_check) {
		serve->check = selfcheck_prepare(serve->args.state_dir);
		if (!serve->check) {
			config_free(source->config);
			return CLI_FAILED;
		}
	}
	options->state_dir = serve->args.state_dir;
	options->config_path = serve->args.config_path;
	options->taken_config = source->config;
	options->source_hash = source->is_named ? source->hash : NULL;
	options->source = source->document;
	options->start = serve->args.start;
	options->reactor_count = serve->args.reactor_count;
	options->spin_max_us = serve->args.spin_max_us;
	options->is_pinned = serve->args.is_pinned;
	options->run_for_ms = serve->args.run_for_ms;
	options->api = &api_functions;
	options->api_options = &serve->args.api;
	options->hooks = (struct daemon_hooks){
		.started = serve_started,
		.stopping = serve_stopping,
		.ended = serve_ended,
		.arg = serve,
	};
	status = log_writer_start();
	if (status)
		log_warn("control",
			 "cannot start the log writer: %s; reactors write the log themselves",
			 strerror(-status));
	status = daemon_run(options);
	serve_ended(serve);
	log_writer_stop();
	return status;
}

int cmd_serve(int argc, char **argv)
{
	struct daemon_options options = {0};
	struct config_errors errors = {.count = 0};
	struct serve serve = {0};
	struct source source;
	int status;

	if (!serve_args_parse(argc, argv, &serve.args, &status))
		return status;
	if (source_make(&serve.args, &source, &errors)) {
		errors_explain(&serve.args, &errors);
		status = CLI_FAILED;
	} else if (discovery_choose(&serve.args, &options) < 0) {
		config_free(source.config);
		status = CLI_USAGE;
	} else if (serve.args.is_check) {
		status = check_print(&serve.args, source.config, &options);
	} else {
		status = serve_run(&serve, &source, &options);
	}
	json_decref(source.document);
	return status;
}
