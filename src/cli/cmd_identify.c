/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft identify`: connects to a subsystem, prints its controller and its namespaces, for people
 * or as JSON. Main thread. NVMe Base 2.1, section 5.1.13: Identify CNS 00h, 01h and 02h.
 */
#include "base/text.h"
#include "base/tool_error.h"
#include "cli/cli.h"
#include "cli/connect_args.h"
#include "cli/print.h"
#include "lib/session.h"
#include "wire/nqn.h"
#include "wire/nvme_tcp.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define IDENTIFY_NS_MAX 65536

struct identify_ns {
	uint32_t nsid;
	struct ns_identity identity;
};

static const char *type_name(enum ctrl_type type)
{
	switch (type) {
	case CTRL_TYPE_IO:
		return "I/O";
	case CTRL_TYPE_DISCOVERY:
		return "discovery";
	default:
		return "not reported";
	}
}

static const char *version_text(uint32_t version, char text[16])
{
	snprintf(text, 16, "%u.%u.%u", (version >> 16) & 0xfff, (version >> 8) & 0xff,
		 version & 0xff);
	return text;
}

static void feature_print(const char *name, bool has_it)
{
	if (has_it)
		printf(" %s", name);
}

static void ctrl_print_text(const struct session *session)
{
	const struct ctrl_identity *id = session_identity(session);
	char version[16];
	char size[32];

	printf("controller  %u (%s), NVMe %s\n", session_cntlid(session), type_name(id->type),
	       version_text(id->version, version));
	printf("subsystem   %s\n", cli_shown(id->subsystem_nqn));
	printf("model       %s\nserial      %s\nfirmware    %s\n", cli_shown(id->model),
	       cli_shown(id->serial), cli_shown(id->firmware));
	printf("transfer    %s per command\n",
	       id->transfer_max_bytes == 0
		       ? "any length"
		       : text_format_size(id->transfer_max_bytes, size, sizeof(size)));
	printf("in capsule  %s\n", text_format_size(id->in_capsule_bytes, size, sizeof(size)));
	printf("I/O queues  %u granted\n", session_io_queues(session));
	printf("features   ");
	feature_print("compare", id->has_compare);
	feature_print("write-zeroes", id->has_write_zeroes);
	feature_print("deallocate", id->has_dataset_management);
	feature_print("write-cache", id->has_volatile_cache);
	feature_print("ana", id->has_ana);
	feature_print("multi-port", id->has_multiple_ports);
	feature_print("multi-controller", id->has_multiple_ctrls);
	feature_print("traffic-keep-alive", id->has_traffic_keep_alive);
	printf("\n");
}

static void ns_print_text(const struct identify_ns *ns)
{
	char size[32];
	char uuid[UUID_TEXT_BYTES];
	const struct ns_identity *id = &ns->identity;

	text_format_size(id->block_count * id->block_bytes, size, sizeof(size));
	printf("namespace   %u: %s, %lu blocks of %u bytes%s%s%s\n", ns->nsid, size,
	       (unsigned long)id->block_count, id->block_bytes, id->is_thin ? ", thin" : "",
	       id->is_shared ? ", shared" : "", id->is_write_protected ? ", write protected" : "");
	if (!uuid_is_nil(&id->uuid))
		printf("            uuid %s\n", uuid_format(&id->uuid, uuid));
}

static json_t *ctrl_to_json(const struct session *session)
{
	const struct ctrl_identity *id = session_identity(session);
	char version[16];

	return json_pack(
		"{s:i, s:s, s:s, s:o, s:o, s:o, s:o, s:I, s:I, s:i, s:b, s:b, s:b, s:b, "
		"s:b, s:b}",
		"cntlid", (int)session_cntlid(session), "type", type_name(id->type), "version",
		version_text(id->version, version), "subnqn", cli_json_text(id->subsystem_nqn),
		"model", cli_json_text(id->model), "serial", cli_json_text(id->serial), "firmware",
		cli_json_text(id->firmware), "transfer_max_bytes",
		(json_int_t)id->transfer_max_bytes, "in_capsule_bytes",
		(json_int_t)id->in_capsule_bytes, "io_queues", (int)session_io_queues(session),
		"compare", id->has_compare, "write_zeroes", id->has_write_zeroes, "deallocate",
		id->has_dataset_management, "write_cache", id->has_volatile_cache, "ana",
		id->has_ana, "traffic_keep_alive", id->has_traffic_keep_alive);
}

static json_t *ns_to_json(const struct identify_ns *ns)
{
	const struct ns_identity *id = &ns->identity;
	char uuid[UUID_TEXT_BYTES];

	return json_pack("{s:I, s:s, s:I, s:I, s:I, s:I, s:b, s:b, s:b}", "nsid",
			 (json_int_t)ns->nsid, "uuid", uuid_format(&id->uuid, uuid), "block_count",
			 (json_int_t)id->block_count, "block_bytes", (json_int_t)id->block_bytes,
			 "bytes", (json_int_t)(id->block_count * id->block_bytes), "ana_group",
			 (json_int_t)id->ana_group_id, "thin", id->is_thin, "shared", id->is_shared,
			 "write_protected", id->is_write_protected);
}

static int all_print(struct session *session, bool is_json)
{
	static uint32_t nsids[IDENTIFY_NS_MAX];
	json_t *namespaces = json_array();
	json_t *root;
	/* A discovery controller has no namespaces to list. */
	int count = session_identity(session)->type == CTRL_TYPE_DISCOVERY
			    ? 0
			    : session_list_ns(session, nsids, IDENTIFY_NS_MAX);
	int res = CLI_OK;

	if (!is_json)
		ctrl_print_text(session);
	if (count < 0) {
		tool_error("identify", count == -EPROTO
					       ? "the controller's list of namespaces is "
						 "invalid: its NSIDs do not increase"
					       : "the controller does not list its namespaces");
		res = CLI_FAILED;
	}
	for (int i = 0; i < count; i++) {
		struct identify_ns ns = {.nsid = nsids[i]};
		nvme_status status = session_identify_ns(session, ns.nsid, &ns.identity);

		if (!nvme_status_is_ok(status)) {
			tool_error("identify", "namespace %u: %s", ns.nsid,
				   nvme_status_name(status));
			res = CLI_FAILED;
		} else if (is_json) {
			json_array_append_new(namespaces, ns_to_json(&ns));
		} else {
			ns_print_text(&ns);
		}
	}
	root = json_pack("{s:o, s:o}", "controller", ctrl_to_json(session), "namespaces",
			 namespaces);
	if (is_json && cli_json_print(root) != 0) {
		tool_error("identify",
			   "cannot print what was found as JSON: out of memory or output closed");
		res = CLI_FAILED;
	}
	json_decref(root);
	return res;
}

static int cmd_identify(int argc, char **argv)
{
	struct connect_query query = {0};
	struct host_config *config = &query.connect.config;
	struct host_error error = {0};
	struct session *session;
	int res;

	connect_args_init(&query.connect, "identify", CLI_DEFAULT_NQN, NVME_TCP_DEFAULT_PORT, 1);
	if (!cli_parse(&identify_command, argc, argv, &query, &res))
		return res;
	if (nqn_is_discovery(config->subsystem_nqn))
		config->io_queues = 0;
	if (connect_args_finish(&query.connect) != 0)
		return CLI_FAILED;
	if (session_open(config, &session, &error) != 0) {
		tool_error("identify", "%s", error.text);
		return CLI_FAILED;
	}
	res = all_print(session, query.is_json);
	session_close(session);
	return res;
}

static const struct cli_group groups[] = {
	{.options = connect_transport_options},  {.options = connect_where_options},
	{.options = connect_host_options},       {.options = connect_queue_options},
	{.options = connect_keep_alive_options}, {.options = connect_query_options},
};

const struct cli_command identify_command = {
	.name = "identify",
	.summary = "show a controller and its namespaces",
	.usage = "[OPTION]...",
	.about = "Connects to a subsystem and shows its controller and namespaces.\n",
	.groups = groups,
	.group_count = ARRAY_LEN(groups),
	.notes = "Examples:\n"
		 "  weft identify\n"
		 "  weft identify -t tcp -a 192.0.2.7 -s 4420 -n nqn.2026-11.io.weft:default -o "
		 "json\n",
	.fn = cmd_identify,
};
