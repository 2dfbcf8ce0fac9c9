/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft serve`: makes a configuration from the file or the flags, then runs the daemon, which
 * occupies the main thread as the control reactor; the hooks here run on it: self-check, banner.
 */
#include "base/text.h"
#include "cli/cli.h"
#include "cli/serve.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct serve {
	struct serve_args args;
	struct selfcheck *check; /* NULL: none wanted, or over */
};

/* The embedded default: one file in the state folder, made at the first start. */
static int config_from_default(const struct serve_args *args, struct config **ret_config,
			       struct config_errors *errors)
{
	struct config_flags flags = {
		.nqn = args->nqn,
		.listens = args->listens.items,
		.listen_count = args->listens.count,
		.hosts = args->hosts.items,
		.host_count = args->hosts.count,
		.ns_count = 1,
	};
	const char *const *spec_list;
	char *spec = NULL;
	int res;

	if (strchr(args->state_dir, ',')) {
		config_errors_add(errors,
				  "--state %s: the name of the folder has a comma, which "
				  "separates options of a medium; choose another",
				  args->state_dir);
		return -EINVAL;
	}
	if (asprintf(&spec, "file:%s/%s,size=%s", args->state_dir, CONFIG_DEFAULT_NS_FILE,
		     CONFIG_DEFAULT_NS_BYTES) < 0)
		return -ENOMEM;
	spec_list = (const char *const *)&spec;
	flags.namespaces = spec_list;
	res = config_from_flags(&flags, ret_config, errors);
	free(spec);
	return res;
}

static int config_make(const struct serve_args *args, struct config **ret_config,
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
	};

	if (args->config_path)
		return config_load_file(args->config_path, ret_config, errors);
	if (flags.ns_count == 0)
		return config_from_default(args, ret_config, errors);
	return config_from_flags(&flags, ret_config, errors);
}

/* Which port answers discovery alone. 0 or, after a message, -1. */
static int discovery_choose(const struct serve_args *args, const struct config *config,
			    struct daemon_options *options)
{
	const struct net_addr *first = NULL;
	char host[NET_ADDR_TEXT_BYTES];

	if (args->discovery && strcmp(args->discovery, "none") == 0)
		return 0;
	options->has_discovery = true;
	if (args->discovery) {
		if (net_addr_parse(args->discovery, CONFIG_DISCOVERY_PORT, &options->discovery) ==
		    0)
			return 0;
		cli_usage_error("serve", "--discovery: \"%s\" must be ADDRESS:PORT or none",
				args->discovery);
		return -1;
	}
	options->discovery_is_optional = true;
	for (unsigned i = 0; i < config->port_count; i++) {
		/* The file has its own: none is added. */
		if (config->ports[i].is_discovery_only)
			options->has_discovery = false;
		else if (!first)
			first = &config->ports[i].listen;
	}
	if (!first)
		options->has_discovery = false;
	if (options->has_discovery)
		net_addr_parse(net_addr_format_host(first, host), CONFIG_DISCOVERY_PORT,
			       &options->discovery);
	return 0;
}

static void errors_explain(const struct serve_args *args, const struct config_errors *errors)
{
	cli_error("serve", "%s: %u error%s", args->config_path ? args->config_path : "the options",
		  errors->count, errors->count == 1 ? "" : "s");
	config_errors_print(errors, stderr);
}

static int check_print(const struct serve_args *args, struct config *config,
		       const struct daemon_options *options)
{
	if (options->has_discovery)
		config_add_discovery_port(config, &options->discovery);
	printf("%s: good\n", args->config_path ? args->config_path : "the options");
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

int cmd_serve(int argc, char **argv)
{
	struct daemon_options options = {0};
	struct config_errors errors = {.count = 0};
	struct serve serve = {0};
	struct config *config = NULL;
	int status;

	if (serve_args_parse(argc, argv, &serve.args, &status))
		return status;
	if (config_make(&serve.args, &config, &errors)) {
		errors_explain(&serve.args, &errors);
		return CLI_FAILED;
	}
	if (discovery_choose(&serve.args, config, &options) < 0) {
		config_free(config);
		return CLI_USAGE;
	}
	if (serve.args.is_check)
		return check_print(&serve.args, config, &options);
	if (serve.args.is_self_check) {
		serve.check = selfcheck_prepare(config, serve.args.state_dir);
		if (!serve.check) {
			config_free(config);
			return CLI_FAILED;
		}
	}
	options.state_dir = serve.args.state_dir;
	options.config_path = serve.args.config_path;
	options.taken_config = config;
	options.reactor_count = serve.args.reactor_count;
	options.spin_max_us = serve.args.spin_max_us;
	options.run_for_ms = serve.args.run_for_ms;
	options.hooks = (struct daemon_hooks){
		.started = serve_started,
		.stopping = serve_stopping,
		.ended = serve_ended,
		.arg = &serve,
	};
	status = daemon_run(&options);
	serve_ended(&serve);
	return status;
}
