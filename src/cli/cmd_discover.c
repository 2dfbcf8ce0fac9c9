/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft discover`: prints the log of a discovery controller like nvme-cli, as text or JSON.
 * lib/discovery_log.c reads the log. Main thread. NVMe Base 2.1, section 5.1.12.3.1.
 */
#include "base/check.h"
#include "base/text.h"
#include "base/tool_error.h"
#include "cli/cli.h"
#include "cli/connect_args.h"
#include "cli/print.h"
#include "lib/discovery_log.h"
#include "wire/nvme_tcp.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names, as nvme-cli spells them --------------------------------------------------------- */

static const char *transport_name(const struct discovery_entry *entry)
{
	switch (entry->transport) {
	case DISCOVERY_RDMA:
		return "rdma";
	case DISCOVERY_TCP:
		return "tcp";
	default:
		return "unrecognized";
	}
}

static const char *family_name(const struct discovery_entry *entry)
{
	switch (entry->family) {
	case DISCOVERY_IPV4:
		return "ipv4";
	case DISCOVERY_IPV6:
		return "ipv6";
	default:
		return "unrecognized";
	}
}

static const char *subtype_name(const struct discovery_entry *entry)
{
	switch (entry->subtype) {
	case DISCOVERY_REFERRAL:
		return "discovery subsystem referral";
	case DISCOVERY_NVM:
		return "nvme subsystem";
	case DISCOVERY_CURRENT:
		return "current discovery subsystem";
	default:
		return "unrecognized";
	}
}

static const char *treq_name(const struct discovery_entry *entry)
{
	static const char *const names[] = {"not specified", "required", "not required",
					    "unrecognized"};

	if (entry->can_disable_sq_flow_control) {
		static const char *const with_flow[] = {
			"not specified, sq flow control disable supported",
			"required, sq flow control disable supported",
			"not required, sq flow control disable supported",
			"unrecognized",
		};

		return with_flow[entry->secure_channel & 3];
	}
	return names[entry->secure_channel & 3];
}

static const char *flags_name(uint16_t flags)
{
	switch (flags & 3) {
	case 1:
		return "duplicate discovery information";
	case 2:
		return "explicit discovery connections";
	case 3:
		return "explicit discovery connections, duplicate discovery information";
	default:
		return "none";
	}
}

static const char *security_name(const struct discovery_entry *entry)
{
	switch (entry->tcp_security) {
	case 0:
		return "none";
	case 1:
		return "tls";
	case 2:
		return "tls13";
	default:
		return "unrecognized";
	}
}

/* ---- output --------------------------------------------------------------------------------- */

static void log_print_text(const struct discovery_log *log)
{
	printf("\nDiscovery Log Number of Records %lu, Generation counter %lu\n",
	       (unsigned long)log->header.entry_count, (unsigned long)log->header.generation);
	for (uint64_t i = 0; i < log->header.entry_count; i++) {
		const struct discovery_entry *entry = &log->entries[i];

		printf("=====Discovery Log Entry %lu======\n", (unsigned long)i);
		printf("trtype:  %s\n", transport_name(entry));
		printf("adrfam:  %s\n", family_name(entry));
		printf("subtype: %s\n", subtype_name(entry));
		printf("treq:    %s\n", treq_name(entry));
		printf("portid:  %u\n", entry->port_id);
		printf("trsvcid: %s\n", cli_shown(entry->service));
		printf("subnqn:  %s\n", cli_shown(entry->subsystem_nqn));
		printf("traddr:  %s\n", cli_shown(entry->address));
		printf("eflags:  %s\n", flags_name(entry->flags));
		if (entry->transport == DISCOVERY_TCP)
			printf("sectype: %s\n", security_name(entry));
	}
}

static int log_print_json(const struct discovery_log *log)
{
	json_t *records = json_array();
	json_t *root;

	for (uint64_t i = 0; i < log->header.entry_count; i++) {
		const struct discovery_entry *entry = &log->entries[i];

		json_array_append_new(
			records,
			json_pack("{s:s, s:s, s:s, s:s, s:i, s:o, s:o, s:o, s:s, s:s}", "trtype",
				  transport_name(entry), "adrfam", family_name(entry), "subtype",
				  subtype_name(entry), "treq", treq_name(entry), "portid",
				  (int)entry->port_id, "trsvcid", cli_json_text(entry->service),
				  "subnqn", cli_json_text(entry->subsystem_nqn), "traddr",
				  cli_json_text(entry->address), "eflags", flags_name(entry->flags),
				  "sectype", security_name(entry)));
	}
	root = json_pack("{s:I, s:o}", "genctr", (json_int_t)log->header.generation, "records",
			 records);
	if (cli_json_print(root) != 0) {
		tool_error("discover",
			   "cannot print the log as JSON: out of memory or output closed");
		json_decref(root);
		return CLI_FAILED;
	}
	json_decref(root);
	return CLI_OK;
}

static int discover_run(const struct host_config *config, bool is_json)
{
	struct discovery_log log = {0};
	struct host_error error = {0};
	int res = discovery_log_fetch(config, &log, &error);

	if (res != 0) {
		tool_error("discover", "%s", error.text);
		return CLI_FAILED;
	}
	if (is_json)
		res = log_print_json(&log);
	else
		log_print_text(&log);
	discovery_log_free(&log);
	return res == 0 ? CLI_OK : CLI_FAILED;
}

static int cmd_discover(int argc, char **argv)
{
	struct connect_query query = {0};
	int res;

	connect_args_init(&query.connect, "discover", NVME_DISCOVERY_NQN, NVME_TCP_DISCOVERY_PORT,
			  0);
	if (!cli_parse(&discover_command, argc, argv, &query, &res))
		return res;
	query.connect.config.io_queues = 0;
	if (connect_args_finish(&query.connect) != 0)
		return CLI_FAILED;
	return discover_run(&query.connect.config, query.is_json);
}

/* -a, -s and -n of a discovery service. */
static const struct cli_option where_options[] = {
	{"traddr", 'a', "ADDR", "address or name of the target (127.0.0.1)",
	 CLI_TEXT(struct connect_options, address)},
	{"trsvcid", 's', "PORT", "TCP port (" CLI_DIGITS(NVME_TCP_DISCOVERY_PORT) ")",
	 CLI_U16(struct connect_options, port, 1, UINT16_MAX)},
	{"nqn", 'n', "NQN", "NQN of the discovery subsystem (" NVME_DISCOVERY_NQN ")",
	 .take = connect_nqn_take},
	{NULL},
};

static const struct cli_group groups[] = {
	{.options = connect_transport_options},
	{.options = where_options},
	{.options = connect_host_options},
	/* For scripts that pass the same options to all commands: discovery has no I/O queues. */
	{.options = connect_queue_options, .is_hidden = true},
	{.options = connect_keep_alive_options},
	{.options = connect_query_options},
};

const struct cli_command discover_command = {
	.name = "discover",
	.summary = "list the subsystems and ports of a discovery service",
	.usage = "[OPTION]...",
	.about = "Lists the subsystems that a discovery service offers, with their addresses.\n",
	.groups = groups,
	.group_count = ARRAY_LEN(groups),
	.notes = "Examples:\n"
		 "  weft discover -t tcp -a 127.0.0.1 -s 4420\n"
		 "  weft discover -a storage1 -o json\n",
	.fn = cmd_discover,
};
