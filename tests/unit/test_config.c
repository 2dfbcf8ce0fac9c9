/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration document: what a good one means; every error is found and reported with its
 * path and a remedy; flags; stable identities; snapshots and the reuse of media.
 */
#include "base/clock.h"
#include "config/config.h"
#include "config/config_parse.h"
#include "config/fields.h"
#include "daemon/ana_hold.h"
#include "daemon/media_registry.h"
#include "daemon/snapshot_build.h"
#include "host/host_transport.h"
#include "target/transport.h"

#include "config_text.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static void expect_error(const char *text, const char *wanted)
{
	struct config *config = load(text);

	if (!says(wanted)) {
		printf("# \"%s\" is not said of %s\n", wanted, text);
		for (unsigned i = 0; i < errors.count && i < CONFIG_ERRORS_MAX; i++)
			printf("#   but: %s\n", errors.texts[i]);
		tap_case_failed = true;
	}
	config_free(config);
}

/* The tables below write documents with ' for ". */
static const char *quoted(const char *text)
{
	static char copy[8192];
	size_t i;

	for (i = 0; text[i] != 0 && i + 1 < sizeof(copy); i++)
		copy[i] = text[i] == '\'' ? '"' : text[i];
	copy[i] = 0;
	return copy;
}

static const char full[] =
	"{'version':1,"
	"'subsystems':["
	" {'nqn':'nqn.2026-11.io.weft:b','serial':'S1','model':'M1','allow_any_host':false,"
	"  'hosts':['nqn.2014-08.org.example:h1','nqn.2014-08.org.example:h2'],"
	"  'namespaces':["
	"   {'nsid':7,'media':'mem:1M','read_only':true,'ana_group':2},"
	"   {'nsid':2,'media':'null:1G','uuid':'6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e3f',"
	"    'nguid':'00112233445566778899aAbBcCdDeEfF'}]},"
	" {'nqn':'nqn.2026-11.io.weft:a'}],"
	"'ports':["
	" {'id':9,'transport':'tcp','address':'127.0.0.1','service':'4421','advertise':'10.0.2.2',"
	"  'subsystems':['nqn.2026-11.io.weft:b'],'ana':[{'group':2,'state':'non-optimized'},"
	"  {'group':3,'state':'optimized'}]},"
	" {'id':3,'address':'::1','zero_copy':'on','zero_copy_min_bytes':16384},"
	" {'id':4,'address':'127.0.0.1','service':'8009','discovery':true}],"
	"'limits':{'connections':100,'connections_per_host':10,'controllers':50,'controllers_per_"
	"host':9,'io_queues':4,"
	" 'queue_size':64,'in_capsule_bytes':4096,'transfer_bytes':131072,'ic_timeout_ms':1000,"
	" 'connect_timeout_ms':2000,'data_timeout_ms':3000,'kato_max_ms':60000,'idle_timeout_ms':"
	"5000,"
	" 'header_digest':false,'data_digest':false}}";

static void reads_a_full_document(void)
{
	struct config *config = load_good(quoted(full));
	const struct config_subsystem *b;

	if (!config)
		return;
	EXPECT_EQ(2, config->subsystem_count);
	EXPECT_STR("nqn.2026-11.io.weft:a", config->subsystems[0].nqn);
	EXPECT_EQ(true, config->subsystems[0].allows_any_host);
	EXPECT_STR("weft", config->subsystems[0].model);
	b = &config->subsystems[1];
	EXPECT_STR("S1", b->serial);
	EXPECT_STR("M1", b->model);
	EXPECT_EQ(false, b->allows_any_host);
	EXPECT_EQ(2, b->host_count);
	EXPECT_STR("nqn.2014-08.org.example:h2", b->hosts[1]);
	EXPECT_EQ(2, b->ns_count);
	EXPECT_EQ(2, b->namespaces[0].nsid);
	EXPECT_EQ(1, b->namespaces[0].ana_group);
	EXPECT_EQ(0xff, b->namespaces[0].nguid[15]);
	EXPECT_EQ(0x6f, b->namespaces[0].uuid.bytes[0]);
	EXPECT_EQ(7, b->namespaces[1].nsid);
	EXPECT_EQ(true, b->namespaces[1].is_read_only);
	EXPECT_EQ(2, b->namespaces[1].ana_group);
	EXPECT_EQ(0, memcmp(b->namespaces[1].nguid, b->namespaces[1].uuid.bytes, 16));
	EXPECT_EQ(3, config->port_count);
	EXPECT_EQ(3, config->ports[0].id);
	EXPECT_EQ(true, config->ports[0].offers_all);
	EXPECT_EQ(4420, net_addr_port(&config->ports[0].listen));
	EXPECT_EQ(ZERO_COPY_ON, config->ports[0].zero_copy);
	EXPECT_EQ(16384, config->ports[0].zero_copy_min_bytes);
	EXPECT_EQ(ZERO_COPY_OFF, config->ports[2].zero_copy);
	EXPECT_EQ(65536, config->ports[2].zero_copy_min_bytes);
	EXPECT_EQ(true, config->ports[1].is_discovery_only);
	EXPECT_EQ(9, config->ports[2].id);
	EXPECT_STR("10.0.2.2", config->ports[2].advertise);
	EXPECT_EQ(1, config->ports[2].subsystem_count);
	EXPECT_EQ(2, config->ports[2].ana_count);
	EXPECT_EQ(100, config->limits.connections_max);
	EXPECT_EQ(9, config->limits.ctrls_per_host_max);
	EXPECT_EQ(5000, config->limits.idle_timeout_ms);
	EXPECT_EQ(64, config->limits.queue_size_max);
	EXPECT_EQ(131072, config->limits.transfer_max_bytes);
	EXPECT_EQ(60000, config->limits.kato_max_ms);
	EXPECT_EQ(false, config->limits.allows_data_digest);
	config_free(config);
}

static void fills_in_defaults(void)
{
	struct config *config = load_good(quoted("{'version':1}"));
	struct target_limits limits;
	char text[NET_ADDR_TEXT_BYTES];

	if (!config)
		return;
	target_limits_default(&limits);
	EXPECT_EQ(0, config->subsystem_count);
	EXPECT_EQ(1, config->port_count);
	EXPECT_EQ(1, config->ports[0].id);
	EXPECT_STR("127.0.0.1:4420", net_addr_format(&config->ports[0].listen, text));
	EXPECT_EQ(limits.queue_size_max, config->limits.queue_size_max);
	config_free(config);
}

static void identities_are_random(void)
{
	static const char text[] =
		"{'version':1,'subsystems':[{'nqn':'nqn.2026-11.io.weft:x','namespaces':["
		"{'media':'file:/d/a,size=1G'},{'media':'mem:1M'}]}]}";
	struct config *config = load_good(quoted(text)), *other = load_good(quoted(text));

	if (config && other) {
		const struct config_ns *a = config->subsystems[0].namespaces;
		const struct config_ns *b = other->subsystems[0].namespaces;

		for (unsigned i = 0; i < 2; i++) {
			EXPECT(!uuid_is_nil(&a[i].uuid));
			EXPECT_EQ(4, a[i].uuid.bytes[6] >> 4);
			EXPECT(!uuid_equal(&a[i].uuid, &b[i].uuid));
			EXPECT_EQ(0, memcmp(a[i].nguid, a[i].uuid.bytes, 16));
		}
		EXPECT(!uuid_equal(&a[0].uuid, &a[1].uuid));
		EXPECT_EQ(20, strlen(config->subsystems[0].serial));
		EXPECT(strcmp(config->subsystems[0].serial, other->subsystems[0].serial) != 0);
	}
	config_free(config);
	config_free(other);
}

#define SUB(rest)   "{'version':1,'subsystems':[{'nqn':'nqn.2026-11.io.weft:x'," rest "}]}"
#define NS(rest)    SUB("'namespaces':[{'media':'mem:1M'},{" rest "}]")
#define PORT(rest)  "{'version':1,'ports':[{" rest "}]}"
#define LIMIT(rest) "{'version':1,'limits':{" rest "}}"

static const struct {
	const char *document;
	const char *error;
} mistakes[] = {
	{"", "line 1, column 0"},
	{"{'version':1,\n 'ports':[}", "line 2, column"},
	{"{'version':1,'version':1}", "duplicate"},
	{"{'version':1} x", "line 1"},
	{"[]", "must be an object, not a list"},
	{"7", "must be an object, not a whole number"},
	{"{}", "version: is missing"},
	{"{'version':2}", "version: is 2, must be 1 to 1"},
	{"{'version':'1'}", "version: must be a whole number, not a string"},
	{"{'version':1.5}", "version: must be a whole number, not a number with a fraction"},
	{"{'version':1,'portz':[]}", "portz: is not a known key; known keys: version, subsystems"},
	{"{'version':1,'subsystems':{}}", "subsystems: must be a list, not an object"},
	{"{'version':1,'subsystems':[7]}", "subsystems[0]: must be an object"},
	{"{'version':1,'subsystems':[{}]}", "subsystems[0].nqn: is missing"},
	{"{'version':1,'subsystems':[{'nqn':'foo'}]}", "subsystems[0].nqn: \"foo\" "},
	{"{'version':1,'subsystems':[{'nqn':null}]}",
	 "subsystems[0].nqn: must be a string, not null"},
	{"{'version':1,'subsystems':[{'nqn':'nqn.2014-08.org.nvmexpress.discovery'}]}",
	 "subsystems[0].nqn: is the name of the discovery service"},
	{"{'version':1,'subsystems':[{'nqn':'nqn.2026-11.io.weft:x'},"
	 "{'nqn':'nqn.2026-11.io.weft:x'}]}",
	 "subsystems[1].nqn: nqn.2026-11.io.weft:x is the name of subsystems[0] too"},
	{SUB("'seriel':'x'"), "subsystems[0].seriel: is not a known key; known keys: nqn, serial"},
	{SUB("'serial':''"), "subsystems[0].serial: must have 1 to 20 characters, has 0"},
	{SUB("'serial':'123456789012345678901'"), "subsystems[0].serial: must have 1 to 20"},
	{SUB("'model':'caf\xc3\xa9'"), "subsystems[0].model: must be printable ASCII"},
	{SUB("'allow_any_host':1"), "subsystems[0].allow_any_host: must be true or false"},
	{SUB("'hosts':'x'"), "subsystems[0].hosts: must be a list"},
	{SUB("'hosts':['nqn.2014-08.org.example:a','x']"), "subsystems[0].hosts[1]: \"x\" "},
	{SUB("'hosts':[1]"), "subsystems[0].hosts[0]: must be a string"},
	{SUB("'hosts':['nqn.2014-08.org.example:a','nqn.2014-08.org.example:a']"),
	 "subsystems[0].hosts[1]: \"nqn.2014-08.org.example:a\" is listed twice"},
	{SUB("'rights':{'nqn.2014-08.org.example:a':'format'}"),
	 "nqn.2014-08.org.example:a: must be a list of rights: write-protect, format"},
	{SUB("'namespaces':[true]"), "subsystems[0].namespaces[0]: must be an object"},
	{NS("'nsid':2"), "subsystems[0].namespaces[1].media: is missing"},
	{NS("'media':'floppy:1'"), "subsystems[0].namespaces[1].media: "},
	{NS("'media':7"), "subsystems[0].namespaces[1].media: must be a string"},
	{NS("'media':'mem:1M','nsid':1"), "namespaces[1].nsid: 1 is used by namespaces[0] too"},
	{NS("'media':'mem:1M','nsid':0"), "namespaces[1].nsid: is 0, must be 1 to 16384"},
	{NS("'media':'mem:1M','nsid':4294967295"), "nsid: is 4294967295, must be 1 to 16384"},
	{NS("'media':'mem:1M','uuid':'xyz'"), "namespaces[1].uuid: must be a UUID"},
	{NS("'media':'mem:1M','uuid':'00000000-0000-0000-0000-000000000000'"),
	 "namespaces[1].uuid: must be a UUID"},
	{NS("'media':'mem:1M','nguid':'12'"), "namespaces[1].nguid: must be 32 hexadecimal"},
	{NS("'media':'mem:1M','nguid':'0011223344556677889900112233445g'"),
	 "namespaces[1].nguid: must be 32 hexadecimal"},
	{NS("'media':'mem:1M','read_only':'no'"), "namespaces[1].read_only: must be true or false"},
	{NS("'media':'mem:1M','ana_group':1025"), "namespaces[1].ana_group: is 1025, must be 1"},
	{SUB("'namespaces':[{'media':'file:/a,size=1M'},{'media':'file:/a'}]"),
	 "namespaces[1].media: /a is used by subsystems[0].namespaces[0] too"},
	{SUB("'namespaces':[{'media':'mem:1M','uuid':'6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e3f'},"
	     "{'media':'mem:1M','uuid':'6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e3f'}]"),
	 "namespaces[1].uuid: is that of subsystems[0].namespaces[0] too"},
	{SUB("'namespaces':[{'media':'mem:1M','nsid':5},{'media':'mem:1M','nsid':4},"
	     "{'media':'mem:1M','nsid':5}]"),
	 "namespaces[2].nsid: 5 is used by namespaces[0] too"},
	{"{'version':1,'ports':[]}", "ports: is empty"},
	{"{'version':1,'ports':[[]]}", "ports[0]: must be an object, not a list"},
	{PORT("'id':0"), "ports[0].id: is 0, must be 1 to 65535"},
	{PORT("'transport':'rdma'"), "ports[0].transport: \"rdma\" must be \"tcp\""},
	{PORT("'transport':'TCP'"), "ports[0].transport: \"TCP\" must be \"tcp\""},
	{PORT("'transport':3"), "ports[0].transport: must be a string, not a whole number"},
	{PORT("'address':'localhost'"), "ports[0].address: \"localhost\" must be a numeric"},
	{PORT("'address':'127.0.0.1:44'"), "ports[0].address: \"127.0.0.1:44\" must be"},
	{PORT("'address':'[::1]'"), "ports[0].address: \"[::1]\" must be a numeric"},
	{PORT("'service':4420"), "ports[0].service: must be a string, not a whole number"},
	{PORT("'service':'70000'"), "ports[0].service: \"70000\" must be a port number"},
	{PORT("'advertise':'example.org'"), "ports[0].advertise: \"example.org\" must be"},
	{PORT("'advertise':'0.0.0.0'"), "ports[0].advertise: \"0.0.0.0\" must be"},
	{PORT("'advertise':'1.2.3.4:5'"), "ports[0].advertise: \"1.2.3.4:5\" must be"},
	{PORT("'subsystems':['nqn.2026-11.io.weft:no']"),
	 "ports[0].subsystems: nqn.2026-11.io.weft:no does not exist"},
	{PORT("'discovery':true,'subsystems':[]"),
	 "ports[0].subsystems: a port with \"discovery\""},
	{PORT("'ana':[{'group':1}]"), "ports[0].ana[0].state: is missing"},
	{PORT("'ana':[{'state':'change'}]"), "ports[0].ana[0].group: is missing"},
	{PORT("'ana':[{'group':1,'state':'change','stat':'change'}]"),
	 "ports[0].ana[0].stat: is not a known key; known keys: group, state"},
	{PORT("'ana':[7]"), "ports[0].ana[0]: must be an object"},
	{PORT("'ana':[{'group':1,'state':'good'}]"), "ports[0].ana[0].state: \"good\" must be"},
	{PORT("'ana':[{'group':1,'state':'change'},{'group':1,'state':'change'}]"),
	 "ports[0].ana[1].group: 1 is listed twice"},
	{PORT("'zero_copy':true"), "ports[0].zero_copy: must be a string, not"},
	{PORT("'zero_copy':'yes'"), "ports[0].zero_copy: \"yes\" must be \"off\", \"auto\" or"},
	{PORT("'zero_copy_min_bytes':4095"),
	 "ports[0].zero_copy_min_bytes: is 4095, must be 4096 to 1048576"},
	{PORT("'zero_copy_min_bytes':1048577"), "ports[0].zero_copy_min_bytes: is 1048577"},
	{"{'version':1,'ports':[{'id':1,'service':'1'},{'id':1,'service':'2'}]}",
	 "ports[1].id: 1 is the id of ports[0] too"},
	{"{'version':1,'ports':[{},{}]}",
	 "ports[1].address: 127.0.0.1:4420 is covered by ports[0]"},
	{"{'version':1,'ports':[{'address':'0.0.0.0'},{}]}", "ports[1].address: 127.0.0.1:4420"},
	{LIMIT("'connections':0"), "limits.connections: is 0, must be 1 to 65536"},
	{LIMIT("'queue_size':16"), "limits.queue_size: is 16, must be 32 to 4096"},
	{LIMIT("'in_capsule_bytes':8200"), "limits.in_capsule_bytes: is 8200, must be a multiple"},
	{LIMIT("'transfer_bytes':5000"), "limits.transfer_bytes: is 5000, must be a power of two"},
	{LIMIT("'header_digest':0"), "limits.header_digest: must be true or false"},
	{LIMIT("'kato_ms':0"), "limits.kato_ms: is not a known key; known keys: connections"},
	{"{'version':1,'limits':[]}", "limits: must be an object, not a list"},
};

static void every_mistake_is_named(void)
{
	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++)
		expect_error(quoted(mistakes[i].document), mistakes[i].error);
}

/* Ports of different transports may share an address, ports of one transport may not. */
static void ports_clash_within_a_transport(void)
{
	struct config_port a = {.transport = DISCOVERY_TCP}, b = {.transport = DISCOVERY_TCP};

	EXPECT_EQ(0, net_addr_parse("10.0.0.1:4420", 0, &a.listen));
	EXPECT_EQ(0, net_addr_parse("0.0.0.0:4420", 0, &b.listen));
	EXPECT(config_ports_clash(&a, &b) && config_ports_clash(&b, &a));
	EXPECT(config_ports_clash(&a, &a));
	b.transport = DISCOVERY_RDMA;
	EXPECT(!config_ports_clash(&a, &b) && !config_ports_clash(&b, &a));
	b.listen = a.listen;
	EXPECT(!config_ports_clash(&a, &b));
	a.transport = DISCOVERY_RDMA;
	EXPECT(config_ports_clash(&a, &b));
	EXPECT_EQ(0, net_addr_parse("10.0.0.1:4421", 0, &a.listen));
	EXPECT(!config_ports_clash(&a, &b));
}

/* The words of the document, the transports of the target and those of the host side. */
static void the_lists_of_transports_agree(void)
{
	const struct config_field *field = config_port_object.fields;
	unsigned found = 0;

	while (strcmp(field->key, "transport") != 0)
		field++;
	for (unsigned i = 0; i < 256; i++) {
		const struct transport_ops *transport = transport_of((enum discovery_transport)i);

		EXPECT_EQ(transport != NULL, i < field->word_count && field->words[i] != NULL);
		EXPECT_EQ(transport != NULL,
			  host_transport_of((enum discovery_transport)i) != NULL);
		if (!transport)
			continue;
		EXPECT_STR(transport->name, field->words[i]);
		EXPECT(host_transport_find(transport->name) ==
		       host_transport_of((enum discovery_transport)i));
		EXPECT(strstr(host_transport_names(), transport->name) != NULL);
		found++;
	}
	EXPECT_EQ(1, found);
	EXPECT_EQ(DISCOVERY_TCP, field->number);
}

/* As by a word of the document without a transport of the target. */
static void a_port_of_a_missing_transport_is_refused(void)
{
	struct config *config = load_good(quoted(PORT("'id':3")));
	struct media_registry *registry = NULL;
	struct snapshot *snapshot = NULL;

	EXPECT_EQ(0, media_registry_create(2, &registry));
	if (!config || !registry)
		return;
	config->ports[0].transport = DISCOVERY_RDMA;
	memset(&errors, 0, sizeof(errors));
	EXPECT_EQ(-EPROTONOSUPPORT, snapshot_from_config(config, registry, 1, &snapshot, &errors));
	EXPECT(snapshot == NULL);
	EXPECT(says("port 3: the target has no transport of type 1; use \"transport\": \"tcp\""));
	media_registry_destroy(registry);
	config_free(config);
}

static void all_mistakes_are_collected(void)
{
	char text[4096];
	size_t used;

	expect_error(quoted("{'version':1,'subsystems':[{'nqn':'foo','serial':7}],"
			    "'ports':[{'id':0,'service':'x'}],'limits':{'io_queues':0}}"),
		     "limits.io_queues");
	EXPECT_EQ(5, errors.count);
	EXPECT(says("subsystems[0].nqn") && says("subsystems[0].serial"));
	EXPECT(says("ports[0].id") && says("ports[0].service"));
	used = (size_t)snprintf(text, sizeof(text), "{\"version\":1,\"subsystems\":[{}");
	for (unsigned i = 1; i < 30; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, ",{}");
	snprintf(text + used, sizeof(text) - used, "]}");
	EXPECT(load(text) == NULL);
	EXPECT_EQ(30, errors.count);
	EXPECT(says("subsystems[19].nqn"));
}

static void a_long_name_is_refused(void)
{
	char text[512], name[256] = "nqn.2026-11.io.weft:";

	memset(name + strlen(name), 'x', 223 - strlen(name));
	snprintf(text, sizeof(text), "{\"version\":1,\"subsystems\":[{\"nqn\":\"%s\"}]}", name);
	config_free(load_good(text));
	name[223] = 'x';
	snprintf(text, sizeof(text), "{\"version\":1,\"subsystems\":[{\"nqn\":\"%s\"}]}", name);
	expect_error(text, "subsystems[0].nqn: is 224 bytes long, an NQN has at most 223");
}

static void a_bad_host_list_lets_nobody_in(void)
{
	struct config *config = load_good(quoted(SUB("'hosts':[]")));

	if (config)
		EXPECT_EQ(false, config->subsystems[0].allows_any_host);
	config_free(config);
}

static void flags_become_a_configuration(void)
{
	const char *listens[] = {"127.0.0.1:4420", "[::1]:5000"};
	const char *specs[] = {"mem:1M", "null:1G"};
	const char *hosts[] = {"nqn.2014-08.org.example:h1"};
	struct config_flags flags = {.listens = listens,
				     .listen_count = 2,
				     .namespaces = specs,
				     .ns_count = 2,
				     .hosts = hosts,
				     .host_count = 1};
	struct config *config = NULL;

	memset(&errors, 0, sizeof(errors));
	EXPECT_EQ(0, config_from_flags(&flags, &config, &errors));
	EXPECT_EQ(0, errors.count);
	if (!config)
		return;
	EXPECT_EQ(1, config->subsystem_count);
	EXPECT_STR(TARGET_DEFAULT_NQN, config->subsystems[0].nqn);
	EXPECT_EQ(false, config->subsystems[0].allows_any_host);
	EXPECT_EQ(2, config->subsystems[0].ns_count);
	EXPECT_EQ(2, config->subsystems[0].namespaces[1].nsid);
	EXPECT_EQ(2, config->port_count);
	EXPECT_EQ(5000, net_addr_port(&config->ports[1].listen));
	config_free(config);
}

static void bad_flags_are_named(void)
{
	const char *listens[] = {"somewhere:1"};
	const char *specs[] = {"mem:1M", "mem:lots"};
	const char *hosts[] = {"h1"};
	struct config_flags flags = {.nqn = "foo",
				     .listens = listens,
				     .listen_count = 1,
				     .namespaces = specs,
				     .ns_count = 2,
				     .hosts = hosts,
				     .host_count = 1};
	struct config *config = NULL;

	memset(&errors, 0, sizeof(errors));
	EXPECT_EQ(-EINVAL, config_from_flags(&flags, &config, &errors));
	EXPECT_EQ(4, errors.count);
	EXPECT(says("--nqn: \"foo\"") && says("--allow-host: \"h1\""));
	EXPECT(says("--ns mem:lots: ") && says("--listen somewhere:1: "));
}

/* JSON cannot hold such a string. The flag is refused, not left out: serving without a requested
 * namespace is worse than not serving. */
static void flags_that_are_no_utf8_are_refused(void)
{
	const char *texts[] = {"file:/tmp/\xff.img"};
	const char *good[] = {"mem:1M"};
	const struct config_flags rows[] = {
		{.namespaces = texts, .ns_count = 1},
		{.namespaces = good, .ns_count = 1, .hosts = texts, .host_count = 1},
		{.namespaces = good, .ns_count = 1, .rights = texts, .rights_count = 1},
		{.nqn = "nqn.2026-11.io.weft:\xff"},
	};

	for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
		struct config *config = NULL;

		memset(&errors, 0, sizeof(errors));
		EXPECT_EQ(-EINVAL, config_from_flags(&rows[i], &config, &errors));
		EXPECT_THAT(errors.count == 1 && !config, "row %u has %u errors", i, errors.count);
		EXPECT(says(rows[i].nqn          ? "--nqn: "
			    : rows[i].host_count ? "--allow-host: "
			    : rows[i].rights_count
				    ? "--rights "
				    : "--ns file:/tmp/\xff.img: is not valid UTF-8"));
		config_free(config);
	}
}

static void files_are_read(void)
{
	char path[] = "/tmp/weft-test-config-XXXXXX";
	int fd = mkstemp(path);
	struct config *config = NULL;
	const char *text = quoted("{'version':1}");

	EXPECT(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
	memset(&errors, 0, sizeof(errors));
	EXPECT_EQ(0, config_load_file(path, &config, &errors));
	config_free(config);
	unlink(path);
	EXPECT_EQ(-ENOENT, config_load_file(path, &config, &errors));
	EXPECT(says("cannot read /tmp/weft-test-config-"));
	memset(&errors, 0, sizeof(errors));
	EXPECT_EQ(-EISDIR, config_load_file("/tmp", &config, &errors));
}

static void a_port_for_discovery_has_room(void)
{
	char *text = NULL;
	size_t bytes;
	FILE *file = open_memstream(&text, &bytes);
	struct config *config;
	struct net_addr addr;

	CHECK(file);
	fprintf(file, "{\"version\":1,\"ports\":[");
	for (unsigned i = 0; i < CONFIG_PORTS_MAX; i++)
		fprintf(file, "%s{\"id\":%u,\"service\":\"%u\"}", i > 0 ? "," : "", i + 1,
			5000 + i);
	fprintf(file, "]}");
	CHECK(fclose(file) == 0);
	config = load_good(text);
	free(text);
	if (!config)
		return;
	net_addr_parse("127.0.0.1:8009", 0, &addr);
	EXPECT(config_add_discovery_port(config, &addr));
	EXPECT_EQ(TARGET_PORTS_MAX, config->port_count);
	net_addr_parse("127.0.0.1:8010", 0, &addr);
	EXPECT(!config_add_discovery_port(config, &addr));
	EXPECT_EQ(TARGET_PORTS_MAX, config->port_count);
	config_free(config);
}

static void ports_and_subsystems_can_be_added(void)
{
	struct config *config = load_good(quoted(full));
	const struct uuid uuid = {.bytes = {1}};
	struct net_addr addr;

	if (!config)
		return;
	net_addr_parse("127.0.0.1:8009", 0, &addr);
	EXPECT(!config_add_discovery_port(config, &addr));
	net_addr_parse("127.0.0.1:8010", 0, &addr);
	EXPECT(config_add_discovery_port(config, &addr));
	EXPECT_EQ(4, config->port_count);
	EXPECT_EQ(8009, config->ports[3].id);
	EXPECT_EQ(-ENOENT, config_add_private_subsystem(config, "nqn.2026-11.io.weft:p", "h",
							"mem:1M", &uuid, 4));
	EXPECT_EQ(-EEXIST, config_add_private_subsystem(config, "nqn.2026-11.io.weft:a", "h",
							"mem:1M", &uuid, 9));
	EXPECT_EQ(0, config_add_private_subsystem(config, "nqn.2026-11.io.weft:aa", "h", "mem:1M",
						  &uuid, 9));
	EXPECT_EQ(3, config->subsystem_count);
	EXPECT_STR("nqn.2026-11.io.weft:aa", config->subsystems[1].nqn);
	EXPECT(uuid_equal(&uuid, &config->subsystems[1].namespaces[0].uuid));
	/* Group 2 is not optimized there, group 1 is. */
	EXPECT_EQ(1, config->subsystems[1].namespaces[0].ana_group);
	EXPECT_EQ(2, config->ports[2].subsystem_count);
	config_remove_subsystem(config, "nqn.2026-11.io.weft:aa");
	EXPECT_EQ(2, config->subsystem_count);
	EXPECT_EQ(1, config->ports[2].subsystem_count);
	EXPECT_STR("nqn.2026-11.io.weft:b", config->subsystems[1].nqn);
	config_remove_subsystem(config, "nqn.2026-11.io.weft:aa");
	EXPECT_EQ(2, config->subsystem_count);
	config_free(config);
}

/* Fills a subsystem with namespaces in descending order, then appends `more`. The caller frees. */
static char *many_namespaces(unsigned count, const char *more)
{
	static const char head[] = "{\"version\":1,\"subsystems\":[{\"nqn\":"
				   "\"nqn.2026-11.io.weft:many\",\"namespaces\":[";
	size_t room = sizeof(head) + count * 48ul + strlen(more) + 8;
	char *text = malloc(room);
	size_t used = (size_t)snprintf(text, room, "%s", head);

	for (unsigned nsid = count; nsid > 0; nsid--)
		used += (size_t)snprintf(text + used, room - used,
					 "%s{\"nsid\":%u,\"media\":\"null:1M\"}",
					 nsid == count ? "" : ",", nsid);
	snprintf(text + used, room - used, "%s]}]}", more);
	return text;
}

static void thousands_of_namespaces_are_read(void)
{
	char *text = many_namespaces(CONFIG_NSID_MAX, "");
	struct config *config = load_good(text);
	struct media_registry *registry = NULL;
	struct snapshot *snapshot = NULL;
	const struct subsystem *subsystem;

	EXPECT_EQ(0, media_registry_create(2, &registry));
	if (!config || !registry)
		return;
	EXPECT_EQ(0, snapshot_from_config(config, registry, 1, &snapshot, &errors));
	EXPECT_EQ(CONFIG_NSID_MAX, media_registry_count(registry));
	subsystem = snapshot->subsystems[0];
	EXPECT_EQ(CONFIG_NSID_MAX, subsystem->ns_count);
	for (unsigned i = 0; i < subsystem->ns_count; i++)
		EXPECT(subsystem->namespaces[i].nsid == i + 1);
	EXPECT(subsystem_find_ns(subsystem, 1025) == &subsystem->namespaces[1024]);
	EXPECT(!subsystem_find_ns(subsystem, CONFIG_NSID_MAX + 1));
	EXPECT_EQ(0, subsystem_ns_after(subsystem, 0));
	EXPECT_EQ(1024, subsystem_ns_after(subsystem, 1024));
	EXPECT_EQ(CONFIG_NSID_MAX, subsystem_ns_after(subsystem, CONFIG_NSID_MAX));
	snapshot_destroy(snapshot);
	media_registry_destroy(registry);
	config_free(config);
	free(text);
}

/* Every repetition is reported once, with the first namespace that it repeats. */
static void repeats_are_found_among_thousands(void)
{
	char *text = many_namespaces(2000, ",{\"nsid\":2000,\"media\":\"null:1M\"},"
					   "{\"nsid\":2001,\"media\":\"file:/a\"},"
					   "{\"nsid\":7,\"media\":\"file:/a\"},"
					   "{\"nsid\":2000,\"media\":\"file:/a,size=1M\"}");
	struct config *config = NULL;

	memset(&errors, 0, sizeof(errors));
	EXPECT(config_load_text(text, strlen(text), &config, &errors) < 0);
	EXPECT_EQ(5, errors.count);
	EXPECT(says("namespaces[2000].nsid: 2000 is used by namespaces[0] too"));
	EXPECT(says("namespaces[2002].nsid: 7 is used by namespaces[1993] too"));
	EXPECT(says("namespaces[2002].media: /a is used by subsystems[0].namespaces[2001] too"));
	EXPECT(says("namespaces[2003].nsid: 2000 is used by namespaces[0] too"));
	EXPECT(says("namespaces[2003].media: /a is used by subsystems[0].namespaces[2001] too"));
	free(text);
}

static void a_snapshot_says_what_the_document_said(void)
{
	struct config *config = load_good(quoted(full));
	struct media_registry *registry = NULL;
	const struct subsystem *b;
	struct snapshot *snapshot = NULL;

	EXPECT_EQ(0, media_registry_create(2, &registry));
	if (!config || !registry)
		return;
	EXPECT_EQ(0, snapshot_from_config(config, registry, 5, &snapshot, &errors));
	for (unsigned i = 0; i < snapshot->port_count; i++)
		EXPECT(snapshot->ports[i].transport == &transport_tcp);
	config_free(config);
	media_registry_commit(registry);
	EXPECT_EQ(2, media_registry_count(registry));
	EXPECT_EQ(5, snapshot->discovery_generation);
	b = snapshot_find_subsystem(snapshot, "nqn.2026-11.io.weft:b");
	EXPECT_EQ(2, b->ns_count);
	EXPECT_EQ(2, b->ana_group_max);
	EXPECT_EQ(2, b->host_count);
	EXPECT_EQ(256, subsystem_find_ns(b, 7)->block_count);
	EXPECT_EQ(12, subsystem_find_ns(b, 7)->block_shift);
	EXPECT_EQ(true, subsystem_find_ns(b, 7)->is_read_only);
	EXPECT_EQ(3, snapshot->port_count);
	EXPECT_EQ(2, snapshot_find_port(snapshot, 3)->subsystem_count);
	EXPECT_EQ(ZERO_COPY_ON, snapshot_find_port(snapshot, 3)->zero_copy);
	EXPECT_EQ(16384, snapshot_find_port(snapshot, 3)->zero_copy_min_bytes);
	EXPECT_EQ(ZERO_COPY_OFF, snapshot_find_port(snapshot, 9)->zero_copy);
	EXPECT_EQ(0, snapshot_find_port(snapshot, 4)->subsystem_count);
	EXPECT_EQ(1, snapshot_find_port(snapshot, 9)->subsystem_count);
	EXPECT(port_offers(snapshot_find_port(snapshot, 9), b));
	EXPECT_EQ(ANA_NON_OPTIMIZED, port_ana_state(snapshot_find_port(snapshot, 9), 2));
	EXPECT_EQ(1, snapshot_find_port(snapshot, 9)->ana_count);
	EXPECT_EQ(64, snapshot->limits.queue_size_max);
	snapshot_destroy(snapshot);
	media_registry_destroy(registry);
}

/* Builds the configuration that follows `*known` and replaces it. */
static struct snapshot *build(struct media_registry *registry, const char *namespaces,
			      struct config **known)
{
	struct snapshot *snapshot = NULL;
	struct config *config = NULL;
	char text[1024];

	snprintf(text, sizeof(text), SUB("'namespaces':[%s]"), namespaces);
	memset(&errors, 0, sizeof(errors));
	EXPECT_EQ(0, config_load_text(quoted(text), strlen(text), &config, &errors));
	EXPECT_EQ(0, config_identify(config, *known, &errors));
	snapshot_from_config(config, registry, 1, &snapshot, &errors);
	config_free(*known);
	*known = config;
	return snapshot;
}

/* The time of a group in "change" counts from the snapshot that brought the state. A later "change"
 * starts anew, so the record of the former one must not survive. A change that is refused after its
 * snapshot was built neither ends nor begins a hold. */
static void a_hold_ends_with_its_state(void)
{
	static const struct {
		const char *state;
		bool is_refused;
		bool has_hold; /* afterwards */
	} steps[] = {
		{"change", false, true},        {"change", false, true},
		{"optimized", true, true},      {"optimized", false, false},
		{"change", true, false},        {"optimized", false, false},
		{"change", false, true},        {"inaccessible", true, true},
		{"inaccessible", false, false},
	};
	struct media_registry *registry = NULL;

	EXPECT_EQ(0, media_registry_create(2, &registry));
	for (unsigned i = 0; registry && i < sizeof(steps) / sizeof(steps[0]); i++) {
		uint64_t later = clock_monotonic_ns() + TARGET_ANA_TRANSITION_S * NS_PER_S;
		struct snapshot *snapshot = NULL;
		struct list *holds = media_registry_ana_holds(registry);
		struct config *config;
		char text[256];

		snprintf(text, sizeof(text),
			 "{'version':1,'ports':[{'id':1,'ana':[{'group':2,'state':'%s'}]}]}",
			 steps[i].state);
		config = load_good(quoted(text));
		EXPECT_EQ(0, snapshot_from_config(config, registry, 1, &snapshot, &errors));
		if (steps[i].is_refused) {
			media_registry_rollback(registry);
		} else {
			ana_holds_settle(holds);
			media_registry_commit(registry);
		}
		EXPECT_EQ(steps[i].has_hold, ana_holds_are_due(holds, later));
		snapshot_destroy(snapshot);
		config_free(config);
	}
	media_registry_destroy(registry);
}

static void unchanged_media_are_kept(void)
{
	struct media_registry *registry = NULL;
	struct config *known = NULL;
	struct snapshot *first, *second;
	struct media *kept;

	EXPECT_EQ(0, media_registry_create(1, &registry));
	first = build(registry, "{'media':'mem:1M'},{'media':'mem:2M'}", &known);
	EXPECT(first != NULL);
	media_registry_commit(registry);
	kept = first->subsystems[0]->namespaces[0].media;
	EXPECT(kept != first->subsystems[0]->namespaces[1].media);
	second = build(registry, "{'media':'mem:1M'},{'media':'mem:3M'}", &known);
	EXPECT(second != NULL);
	EXPECT(kept == second->subsystems[0]->namespaces[0].media);
	/* A larger size is a second medium over the same memory. */
	EXPECT(first->subsystems[0]->namespaces[1].media !=
	       second->subsystems[0]->namespaces[1].media);
	EXPECT(first->subsystems[0]->namespaces[1].mapped ==
	       second->subsystems[0]->namespaces[1].mapped);
	snapshot_destroy(first);
	media_registry_commit(registry);
	EXPECT_EQ(2, media_registry_count(registry));
	snapshot_destroy(second);
	media_registry_destroy(registry);
	config_free(known);
}

static void a_failure_changes_nothing(void)
{
	struct media_registry *registry = NULL;
	struct config *known = NULL;
	struct snapshot *first;

	EXPECT_EQ(0, media_registry_create(1, &registry));
	first = build(registry, "{'media':'mem:1M'}", &known);
	media_registry_commit(registry);
	EXPECT(build(registry,
		     "{'media':'mem:2M'},{'media':'file:/nowhere/a'},"
		     "{'media':'file:/nowhere/b'}",
		     &known) == NULL);
	EXPECT_EQ(2, errors.count);
	EXPECT(says("nqn.2026-11.io.weft:x, namespace 2 (file:/nowhere/a): "));
	EXPECT(says("namespace 3 (file:/nowhere/b): "));
	EXPECT_EQ(1, media_registry_count(registry));
	snapshot_destroy(first);
	media_registry_destroy(registry);
	config_free(known);
}

int main(void)
{
	TAP_RUN(reads_a_full_document);
	TAP_RUN(fills_in_defaults);
	TAP_RUN(identities_are_random);
	TAP_RUN(every_mistake_is_named);
	TAP_RUN(ports_clash_within_a_transport);
	TAP_RUN(the_lists_of_transports_agree);
	TAP_RUN(a_port_of_a_missing_transport_is_refused);
	TAP_RUN(all_mistakes_are_collected);
	TAP_RUN(a_long_name_is_refused);
	TAP_RUN(a_bad_host_list_lets_nobody_in);
	TAP_RUN(flags_become_a_configuration);
	TAP_RUN(bad_flags_are_named);
	TAP_RUN(flags_that_are_no_utf8_are_refused);
	TAP_RUN(files_are_read);
	TAP_RUN(a_port_for_discovery_has_room);
	TAP_RUN(ports_and_subsystems_can_be_added);
	TAP_RUN(thousands_of_namespaces_are_read);
	TAP_RUN(repeats_are_found_among_thousands);
	TAP_RUN(a_snapshot_says_what_the_document_said);
	TAP_RUN(a_hold_ends_with_its_state);
	TAP_RUN(unchanged_media_are_kept);
	TAP_RUN(a_failure_changes_nothing);
	return tap_end();
}
