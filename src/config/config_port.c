/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the ports and the limits of the configuration: where the target listens, what it offers
 * there and under which ANA states, and how much it lets a host use.
 *
 * Control thread only. Addresses are numeric: a name could mean another place at the next start.
 */
#include "config/config_parse.h"

#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void parse_address(struct config_cursor *at, const json_t *object, struct config_port *port)
{
	const char *address = CONFIG_DEFAULT_ADDRESS;
	const char *service = "4420";
	uint64_t number = CONFIG_DEFAULT_PORT;
	const char *colon;

	config_get_text(at, object, "address", &address);
	config_get_text(at, object, "service", &service);
	if (text_parse_u64(service, UINT16_MAX, &number)) {
		config_complain(at, "service", "\"%s\" must be a port number, \"0\" to \"65535\"",
				service);
		number = 0; /* in nobody's way, so that no second error follows */
	}
	/* "1.2.3.4:5" parses, but its port belongs into "service"; a bare IPv6 has many colons. */
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

static void parse_advertise(struct config_cursor *at, const json_t *object,
			    struct config_port *port)
{
	const char *text = NULL;
	struct net_addr addr;

	if (!config_get_text(at, object, "advertise", &text))
		return;
	if (strlen(text) >= sizeof(port->advertise) || net_addr_parse(text, 1, &addr) ||
	    net_addr_port(&addr) != 1 || net_addr_is_any(&addr) || text[0] == '[') {
		config_complain(
			at, "advertise",
			"\"%s\" must be the numeric address that hosts shall use, without a "
			"port number",
			text);
		return;
	}
	text_copy(port->advertise, sizeof(port->advertise), text);
}

static void ana_parse(struct config_cursor *at, const json_t *object, struct config_port *port)
{
	static const char *const keys[] = {"group", "state"};
	struct ana_group_state *entry = &port->ana[port->ana_count];
	const char *state = NULL;

	config_object_check(at, object, keys, ARRAY_LEN(keys));
	if (!json_is_object(object))
		return;
	if (!json_object_get(object, "group"))
		config_complain(at, "group", "is missing; give the number of an ANA group");
	if (!json_object_get(object, "state"))
		config_complain(at, "state", "is missing; give \"non-optimized\" or another state");
	if (!config_get_u32(at, object, "group", 1, CONFIG_ANA_GROUP_MAX, &entry->group) ||
	    !config_get_text(at, object, "state", &state))
		return;
	if (!config_ana_state_parse(state, &entry->state)) {
		config_complain(at, "state",
				"\"%s\" must be \"optimized\", \"non-optimized\", "
				"\"inaccessible\", \"persistent-loss\" or \"change\"",
				state);
		return;
	}
	for (unsigned i = 0; i < port->ana_count; i++) {
		if (port->ana[i].group == entry->group) {
			config_complain(at, "group", "%u is listed twice on this port",
					entry->group);
			return;
		}
	}
	port->ana_count++;
}

static void ana_list_parse(struct config_cursor *at, const json_t *object, struct config_port *port)
{
	const json_t *array = NULL;

	if (!config_get_array(at, object, "ana", CONFIG_ANA_GROUP_MAX, &array))
		return;
	port->ana = calloc(json_array_size(array) + 1, sizeof(*port->ana));
	if (!port->ana) {
		config_complain_memory(at, "ana");
		return;
	}
	for (size_t i = 0; i < json_array_size(array); i++) {
		size_t mark = config_cursor_enter(at, "ana", i);

		ana_parse(at, json_array_get(array, i), port);
		config_cursor_leave(at, mark);
	}
}

static void parse_zero_copy(struct config_cursor *at, const json_t *object,
			    struct config_port *port)
{
	const char *text = NULL;

	port->zero_copy_min_bytes = TARGET_ZERO_COPY_MIN_BYTES;
	/* From a page to the largest transfer there is. */
	config_get_u32(at, object, "zero_copy_min_bytes", 4096, 1048576,
		       &port->zero_copy_min_bytes);
	if (!config_get_text(at, object, "zero_copy", &text))
		return;
	for (enum zero_copy i = ZERO_COPY_OFF; i <= ZERO_COPY_ON; i++) {
		if (strcmp(text, config_zero_copy_name(i)) == 0) {
			port->zero_copy = i;
			return;
		}
	}
	config_complain(at, "zero_copy", "\"%s\" must be \"off\", \"auto\" or \"on\"", text);
}

void config_port_parse(struct config_cursor *at, const json_t *object, unsigned index,
		       struct config_port *port)
{
	static const char *const keys[] = {
		"id",         "transport", "address",   "service",   "advertise",
		"subsystems", "ana",       "discovery", "zero_copy", "zero_copy_min_bytes"};
	const char *transport = "tcp";
	uint32_t id = index + 1;

	port->offers_all = true;
	config_object_check(at, object, keys, ARRAY_LEN(keys));
	if (!json_is_object(object)) {
		net_addr_parse(CONFIG_DEFAULT_ADDRESS, 0, &port->listen);
		return;
	}
	config_get_u32(at, object, "id", 1, UINT16_MAX, &id);
	port->id = (uint16_t)id;
	config_get_text(at, object, "transport", &transport);
	if (strcmp(transport, "tcp") != 0)
		config_complain(at, "transport", "\"%s\" must be \"tcp\", the only one there is",
				transport);
	parse_address(at, object, port);
	parse_advertise(at, object, port);
	config_get_bool(at, object, "discovery", &port->is_discovery_only);
	if (json_object_get(object, "subsystems")) {
		port->offers_all = false;
		config_get_nqns(at, object, "subsystems", CONFIG_SUBSYSTEMS_MAX, &port->subsystems,
				&port->subsystem_count);
		if (port->is_discovery_only)
			config_complain(at, "subsystems",
					"a port with \"discovery\": true offers none; remove one "
					"of the two");
	}
	ana_list_parse(at, object, port);
	parse_zero_copy(at, object, port);
}

#define LIMIT(key, member, min, max)                                                               \
	{                                                                                          \
		key, offsetof(struct target_limits, member), min, max                              \
	}

const struct config_limit config_limits[] = {
	LIMIT("connections", connections_max, 1, 65536),
	LIMIT("connections_per_host", connections_per_host_max, 1, 65536),
	LIMIT("controllers", ctrls_max, 1, 65519),
	LIMIT("controllers_per_host", ctrls_per_host_max, 1, 65519),
	LIMIT("io_queues", io_queues_max, 1, 1024),
	LIMIT("queue_size", queue_size_max, 32, 4096),
	LIMIT("in_capsule_bytes", in_capsule_bytes, 0, 131072),
	LIMIT("transfer_bytes", transfer_max_bytes, 4096, 1048576),
	LIMIT("ic_timeout_ms", ic_timeout_ms, 100, 3600000),
	LIMIT("connect_timeout_ms", connect_timeout_ms, 100, 3600000),
	LIMIT("data_timeout_ms", data_timeout_ms, 100, 3600000),
	LIMIT("quiesce_ms", quiesce_ms, 0, 65535),
	LIMIT("kato_max_ms", kato_max_ms, 0, 86400000),
	LIMIT("idle_timeout_ms", idle_timeout_ms, 0, 86400000),
};

_Static_assert(ARRAY_LEN(config_limits) == CONFIG_LIMIT_COUNT, "the header counts them");

void config_limits_parse(struct config_cursor *at, const json_t *object,
			 struct target_limits *limits)
{
	const char *keys[CONFIG_LIMIT_COUNT + 2];
	size_t count = 0;

	for (; count < CONFIG_LIMIT_COUNT; count++)
		keys[count] = config_limits[count].key;
	keys[count++] = "header_digest";
	keys[count++] = "data_digest";
	config_object_check(at, object, keys, count);
	if (!json_is_object(object))
		return;
	for (size_t i = 0; i < CONFIG_LIMIT_COUNT; i++) {
		const struct config_limit *field = &config_limits[i];
		uint32_t value;

		if (config_get_u32(at, object, field->key, field->min, field->max, &value))
			memcpy((uint8_t *)limits + field->offset, &value, sizeof(value));
	}
	config_get_bool(at, object, "header_digest", &limits->allows_header_digest);
	config_get_bool(at, object, "data_digest", &limits->allows_data_digest);
	/* IOCCSZ counts in units of 16 bytes, MDTS in powers of two of a page. */
	if (limits->in_capsule_bytes % 16 != 0)
		config_complain(at, "in_capsule_bytes", "is %u, must be a multiple of 16",
				limits->in_capsule_bytes);
	if ((limits->transfer_max_bytes & (limits->transfer_max_bytes - 1)) != 0)
		config_complain(at, "transfer_bytes",
				"is %u, must be a power of two, such as 131072 or 1048576",
				limits->transfer_max_bytes);
}
