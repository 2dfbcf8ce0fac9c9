/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields of ports and limits: where the target listens, what it offers there in which ANA
 * states, and how much a host may use.
 *
 * Control thread only. Addresses are numeric, because a host name could resolve to another address
 * at the next start.
 */
#include "base/check.h"
#include "base/text.h"
#include "config/config_merge.h"
#include "config/config_parse.h"
#include "config/document.h"
#include "config/fields.h"

#include <stdlib.h>
#include <string.h>

/* Reads "address" and "service", which together are the address to listen on. */
static void address_parse(struct config_cursor *at, const json_t *object,
			  const struct config_field *field, void *to)
{
	struct config_port *port = to;
	const char *address = field->text;
	const char *service = "4420";
	uint64_t number = CONFIG_DEFAULT_PORT;
	const char *colon;

	config_get_text(at, object, "address", &address);
	config_get_text(at, object, "service", &service);
	if (text_parse_u64(service, UINT16_MAX, &number)) {
		config_complain(at, "service", "\"%s\" must be a port number, \"0\" to \"65535\"",
				service);
		number = 0; /* port 0 conflicts with no other port, so no second error follows */
	}
	/* "1.2.3.4:5" parses, but its port number belongs into "service". A bare IPv6 address has
	 * several colons. */
	colon = strchr(address, ':');
	if ((colon && !strchr(colon + 1, ':')) || address[0] == '[' ||
	    net_addr_parse(address, (uint16_t)number, &port->listen)) {
		config_complain(at, "address",
				"\"%s\" must be a numeric address such as \"0.0.0.0\" or \"::1\"; "
				"the port number goes into \"service\"",
				address);
		net_addr_parse(CONFIG_DEFAULT_ADDRESS, 0, &port->listen);
	}
}

static json_t *address_write(const struct config_writing *writing, const struct config_field *field,
			     const void *from)
{
	const struct config_port *port = from;
	char host[NET_ADDR_TEXT_BYTES];

	net_addr_format_host(&port->listen, host);
	return json_string(host);
}

static json_t *service_write(const struct config_writing *writing, const struct config_field *field,
			     const void *from)
{
	const struct config_port *port = from;

	return json_sprintf("%u", net_addr_port(&port->listen));
}

static void advertise_parse(struct config_cursor *at, const json_t *object,
			    const struct config_field *field, void *to)
{
	struct config_port *port = to;
	const char *text = NULL;
	struct net_addr addr;

	if (!config_get_text(at, object, field->key, &text))
		return;
	if (strlen(text) >= sizeof(port->advertise) || net_addr_parse(text, 1, &addr) ||
	    net_addr_port(&addr) != 1 || net_addr_is_any(&addr) || text[0] == '[') {
		config_complain(at, "advertise",
				"\"%s\" must be the numeric address that hosts connect to, without "
				"a port number",
				text);
		return;
	}
	text_copy(port->advertise, sizeof(port->advertise), text);
}

/* ---- what is offered ------------------------------------------------------------------------- */

static void offers_check(struct config_cursor *at, const json_t *object, void *to)
{
	struct config_port *port = to;

	port->offers_all = !json_object_get(object, "subsystems");
	if (port->is_discovery_only && !port->offers_all)
		config_complain(at, "subsystems",
				"a port with \"discovery\": true offers no subsystem; remove one "
				"of the two keys");
}

static bool offers_are_written(const struct config_writing *writing, const void *from)
{
	const struct config_port *port = from;

	return !port->offers_all && !port->is_discovery_only;
}

static bool is_offer_of_document(const struct config *config, const char *nqn)
{
	for (unsigned i = 0; i < config->subsystem_count; i++) {
		if (config->subsystems[i].is_implied && strcmp(config->subsystems[i].nqn, nqn) == 0)
			return false;
	}
	return true;
}

static json_t *offers_write(const struct config_writing *writing, const struct config_field *field,
			    const void *from)
{
	const struct config_port *port = from;
	json_t *list = json_array();

	for (unsigned i = 0; list && i < port->subsystem_count; i++) {
		if (!is_offer_of_document(writing->config, port->subsystems[i]))
			continue;
		if (json_array_append_new(list, json_string(port->subsystems[i])) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

/* If the saved port has no list, it already offers all subsystems. */
static void offers_merge(struct config_merge *merge, const struct config_field *field,
			 json_t *saved, const json_t *more)
{
	if (json_object_get(saved, field->key))
		config_merge_unite(merge, saved, field->key, json_object_get(more, field->key));
}

/* ---- ANA ------------------------------------------------------------------------------------- */

static const struct config_field ana_fields[] = {
	{"group", "ANA group", FIELD_IS_U32(struct ana_group_state, group, 1, CONFIG_ANA_GROUP_MAX),
	 .change = FIELD_NAMES, .missing = "give the number of an ANA group"},
	{"state", "state of the group on this port", .kind = FIELD_WORD, .words = ana_state_names,
	 .word_count = ANA_STATE_NAMES, FIELD_AT(struct ana_group_state, state, enum ana_state),
	 .missing = "give \"non-optimized\" or another state"},
};

const struct config_object config_ana_object = {"ana", sizeof(struct ana_group_state), NULL,
						ana_fields, ARRAY_LEN(ana_fields)};

static void ana_parse(struct config_cursor *at, const json_t *object, struct config_port *port)
{
	struct ana_group_state *entry = &port->ana[port->ana_count];
	unsigned before = at->errors->count;

	if (!config_object_parse(at, &config_ana_object, object, entry) ||
	    at->errors->count > before)
		return;
	for (unsigned i = 0; i < port->ana_count; i++) {
		if (port->ana[i].group == entry->group) {
			config_complain(at, "group", "%u is listed twice on this port",
					entry->group);
			return;
		}
	}
	port->ana_count++;
}

static void ana_list_parse(struct config_cursor *at, const json_t *object,
			   const struct config_field *field, void *to)
{
	struct config_port *port = to;
	const json_t *array = NULL;

	if (!config_get_array(at, object, field->key, field->max, &array))
		return;
	port->ana = calloc(json_array_size(array) + 1, sizeof(*port->ana));
	if (!port->ana) {
		config_complain_memory(at, field->key);
		return;
	}
	for (size_t i = 0; i < json_array_size(array); i++) {
		size_t mark = config_cursor_enter(at, field->key, i);

		ana_parse(at, json_array_get(array, i), port);
		config_cursor_leave(at, mark);
	}
}

static json_t *ana_list_write(const struct config_writing *writing,
			      const struct config_field *field, const void *from)
{
	const struct config_port *port = from;
	json_t *list = json_array();

	for (unsigned i = 0; list && i < port->ana_count; i++) {
		if (json_array_append_new(list, config_object_write(writing, &config_ana_object,
								    &port->ana[i])) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static int by_group(const void *a, const void *b)
{
	const struct ana_group_state *x = a, *y = b;

	return x->group < y->group ? -1 : x->group > y->group;
}

static void ana_sort(void *of)
{
	struct config_port *port = of;

	if (port->ana_count > 1)
		qsort(port->ana, port->ana_count, sizeof(*port->ana), by_group);
}

static void ana_release(void *of)
{
	free(((struct config_port *)of)->ana);
}

/* ---- the table of ports ---------------------------------------------------------------------- */

static const char *const zero_copy_words[] = {
	[ZERO_COPY_OFF] = "off", [ZERO_COPY_AUTO] = "auto", [ZERO_COPY_ON] = "on"};

/* The transports of this build: those of transport_of and host_transport_of (test_config.c). */
static const char *const transport_words[] = {[DISCOVERY_TCP] = "tcp"};

#define PORT struct config_port
static const struct config_field port_fields[] = {
	{"id", "number of the port", FIELD_IS_U16(PORT, id, 1, UINT16_MAX), .change = FIELD_NAMES,
	 .absent = "the lowest free number", FIELD_SERVED(struct port, id), .argument = "N"},
	{"transport", "transport that hosts use",
	 FIELD_IS_WORD(PORT, transport, enum discovery_transport, transport_words),
	 .number = DISCOVERY_TCP},
	{"address", "numeric address to listen on", .type = "string",
	 .text = CONFIG_DEFAULT_ADDRESS, .parse = address_parse, .write = address_write,
	 .argument = "ADDR"},
	{"service", "TCP port, 0 for any free port", .type = "string", .text = "4420",
	 .write = service_write, .argument = "PORT"},
	{"advertise", "address in the discovery log, if not the listen address",
	 FIELD_IS_CHARS(PORT, advertise), FIELD_SERVED(struct port, advertise_address),
	 .parse = advertise_parse, .argument = "ADDR"},
	{"discovery", "whether the port offers discovery only",
	 FIELD_IS_BOOL(PORT, is_discovery_only), FIELD_SERVED(struct port, is_discovery_only)},
	{"subsystems", "a subsystem that this port offers",
	 FIELD_IS_NQNS(PORT, subsystems, subsystem_count, CONFIG_SUBSYSTEMS_MAX), .absent = "all",
	 .check = offers_check, .is_written = offers_are_written, .write = offers_write,
	 .merge = offers_merge, .option = "subsystem", .argument = "NQN|none"},
	{"ana", "ANA groups that are not optimized on this port", .type = "array",
	 .max = CONFIG_ANA_GROUP_MAX, .parse = ana_list_parse, .write = ana_list_write,
	 .sort = ana_sort, .release = ana_release, .object = &config_ana_object},
	{"zero_copy", "whether data that hosts read is sent without a copy",
	 FIELD_IS_WORD(PORT, zero_copy, enum zero_copy, zero_copy_words),
	 FIELD_SERVED(struct port, zero_copy)},
	/* From a page to the largest possible transfer. */
	{"zero_copy_min_bytes", "smallest read that is sent without a copy",
	 FIELD_IS_U32(PORT, zero_copy_min_bytes, 4096, 1048576),
	 .number = TARGET_ZERO_COPY_MIN_BYTES, FIELD_SERVED(struct port, zero_copy_min_bytes),
	 .argument = "N"},
};

static bool document_addr(const json_t *port, struct net_addr *ret_addr)
{
	const char *address = document_text(port, "address"),
		   *service = document_text(port, "service");
	char text[NET_ADDR_TEXT_BYTES + 16];

	if (address[0] == 0)
		address = CONFIG_DEFAULT_ADDRESS;
	snprintf(text, sizeof(text), strchr(address, ':') ? "[%s]:%s" : "%s:%s", address, service);
	return net_addr_parse(service[0] ? text : address, CONFIG_DEFAULT_PORT, ret_addr) == 0;
}

static const char *document_transport(const json_t *port)
{
	const char *transport = document_text(port, "transport");

	return transport[0] ? transport : transport_words[DISCOVERY_TCP];
}

/* Matches by transport and address. */
static json_t *port_by_address(const json_t *list, const json_t *found, const json_t *element)
{
	char wanted[NET_ADDR_TEXT_BYTES], text[NET_ADDR_TEXT_BYTES];
	struct net_addr addr;

	if (!document_addr(element, &addr))
		return NULL;
	net_addr_format(&addr, wanted);
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *port = json_array_get(list, i);

		if (document_addr(port, &addr) &&
		    strcmp(document_transport(element), document_transport(port)) == 0 &&
		    strcmp(wanted, net_addr_format(&addr, text)) == 0)
			return port;
	}
	return NULL;
}

const struct config_object config_port_object = {
	"port", sizeof(PORT), NULL, port_fields, ARRAY_LEN(port_fields), .find = port_by_address};

void config_port_init(struct config_port *port, uint16_t id)
{
	config_object_init(&config_port_object, port);
	port->id = id;
	port->offers_all = true;
}

void config_port_parse(struct config_cursor *at, const json_t *object, unsigned index,
		       struct config_port *port)
{
	config_port_init(port, (uint16_t)(index + 1));
	if (!config_object_parse(at, &config_port_object, object, port))
		net_addr_parse(CONFIG_DEFAULT_ADDRESS, 0, &port->listen);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* IOCCSZ counts in units of 16 bytes. */
static void capsule_check(struct config_cursor *at, const json_t *object, void *to)
{
	const struct target_limits *limits = to;

	if (limits->in_capsule_bytes % 16 != 0)
		config_complain(at, "in_capsule_bytes", "is %u, must be a multiple of 16",
				limits->in_capsule_bytes);
}

/* MDTS counts in powers of two of a page. */
static void transfer_check(struct config_cursor *at, const json_t *object, void *to)
{
	const struct target_limits *limits = to;

	if ((limits->transfer_max_bytes & (limits->transfer_max_bytes - 1)) != 0)
		config_complain(at, "transfer_bytes",
				"is %u, must be a power of two, such as 131072 or 1048576",
				limits->transfer_max_bytes);
}

static void limits_prepare(void *to)
{
	target_limits_default(to);
}

#define LIMIT(member, min, max) FIELD_IS_U32(struct target_limits, member, min, max)
#define LIMIT_FLAG(member)      FIELD_IS_BOOL(struct target_limits, member)
static const struct config_field limit_fields[] = {
	{"connections", "connections in total", LIMIT(connections_max, 1, 65536)},
	{"connections_per_host", "connections from one address",
	 LIMIT(connections_per_host_max, 1, 65536)},
	{"controllers", "controllers for I/O, and as many again for discovery",
	 LIMIT(ctrls_max, 1, 65519)},
	{"controllers_per_host", "controllers that one host may have",
	 LIMIT(ctrls_per_host_max, 1, 65519)},
	{"io_queues", "I/O queues of a controller", LIMIT(io_queues_max, 1, 1024)},
	{"queue_size", "entries of a queue", LIMIT(queue_size_max, 32, 4096)},
	{"in_capsule_bytes", "data in the capsule of an I/O command, a multiple of 16",
	 LIMIT(in_capsule_bytes, 0, 131072), .check = capsule_check},
	{"transfer_bytes", "largest transfer of a command, a power of two",
	 LIMIT(transfer_max_bytes, 4096, 1048576), .check = transfer_check},
	{"ic_timeout_ms", "time for a new connection to send ICReq",
	 LIMIT(ic_timeout_ms, 100, 3600000)},
	{"connect_timeout_ms", "time from ICReq to the Connect command",
	 LIMIT(connect_timeout_ms, 100, 3600000)},
	{"data_timeout_ms", "longest wait for a host to send its data, or to read",
	 LIMIT(data_timeout_ms, 100, 3600000)},
	{"quiesce_ms", "Command Quiesce Time (CQT) reported to hosts; 0: none",
	 LIMIT(quiesce_ms, 0, 65535)},
	{"kato_max_ms", "longest keep alive time-out that a host may ask for; 0: any",
	 LIMIT(kato_max_ms, 0, 86400000)},
	{"idle_timeout_ms",
	 "time without a command after which a controller with KATO 0 ends; "
	 "0: never",
	 LIMIT(idle_timeout_ms, 0, 86400000)},
	{"header_digest", "whether header digests are accepted", LIMIT_FLAG(allows_header_digest)},
	{"data_digest", "whether data digests are accepted", LIMIT_FLAG(allows_data_digest)},
};

const struct config_object config_limits_object = {"limits", sizeof(struct target_limits),
						   limits_prepare, limit_fields,
						   ARRAY_LEN(limit_fields)};
