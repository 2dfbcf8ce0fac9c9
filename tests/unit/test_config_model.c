/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration as a document that is written, compared and followed by another: what is
 * exported reads back the same, byte for byte; differences are told in one line each; what the
 * state in force forbids is refused; masks, protection, labels and pools are read strictly.
 */
#include "control/config.h"

#include "config_text.h"

#include <errno.h>
#include <stdlib.h>

#define NQN_A "nqn.2026-11.io.weft:a"
#define NQN_B "nqn.2026-11.io.weft:b"
#define HOST1 "nqn.2014-08.org.example:h1"
#define HOST2 "nqn.2014-08.org.example:h2"

static void expect_error(const char *text, const char *wanted)
{
	struct config *config = load(text);

	EXPECT(config == NULL);
	if (!says(wanted)) {
		printf("# \"%s\" is not said of %s\n", wanted, text);
		tap_case_failed = true;
	}
	config_free(config);
}

static char *dump(const struct config *config)
{
	json_t *document = config_to_json(config);
	char *text = json_dumps(document, JSON_INDENT(1));

	json_decref(document);
	return text;
}

static void expect_round_trip(const char *text)
{
	struct config *first = load_good(text), *second;
	char *once, *twice, *diff;

	if (!first)
		return;
	once = dump(first);
	second = load_good(once);
	if (second) {
		twice = dump(second);
		diff = config_diff(first, second);
		EXPECT_STR(once, twice);
		EXPECT_STR("", diff);
		free(twice);
		free(diff);
	}
	free(once);
	config_free(first);
	config_free(second);
}

/* One of everything, out of order. */
static const char *const full =
	"{\"version\": 1, \"subsystems\": ["
	" {\"nqn\": \"" NQN_B "\", \"hosts\": [\"" HOST2 "\", \"" HOST1 "\"],"
	"  \"pool\": {\"folder\": \"/pool\", \"capacity\": \"1G\"},"
	"  \"namespaces\": ["
	"   {\"nsid\": 7, \"media\": \"mem:1M,block=512\", \"ana_group\": 3,"
	"    \"hidden_from\": [\"" HOST2 "\", \"" HOST1 "\"], \"label\": \"caf\xc3\xa9\"},"
	"   {\"nsid\": 2, \"media\": \"file:/pool/a.img,size=512M\", \"hosts\": [],"
	"    \"write_protect\": \"permanent\"},"
	"   {\"nsid\": 3, \"media\": \"null:1M\", \"hosts\": [\"" HOST1 "\"], \"private\": true,"
	"    \"write_protect\": \"until-power-cycle\"},"
	"   {\"nsid\": 9, \"media\": \"fault:delay:ms=1@mem:1M\", \"read_only\": true,"
	"    \"uuid\": \"6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e3f\","
	"    \"nguid\": \"00112233445566778899AABBCCDDEEFF\","
	"    \"write_protect\": \"protected\"}]},"
	" {\"nqn\": \"" NQN_A "\", \"serial\": \"S 1\", \"model\": \"M\"}],"
	" \"ports\": ["
	"  {\"id\": 9, \"address\": \"::1\", \"service\": \"0\", \"zero_copy\": \"auto\","
	"   \"ana\": [{\"group\": 3, \"state\": \"change\"}, {\"group\": 1, \"state\": "
	"\"optimized\"}]},"
	"  {\"id\": 2, \"address\": \"0.0.0.0\", \"advertise\": \"192.0.2.7\","
	"   \"subsystems\": [\"" NQN_B "\", \"" NQN_A "\"]},"
	"  {\"id\": 3, \"service\": \"8010\", \"discovery\": true}],"
	" \"limits\": {\"io_queues\": 9, \"data_digest\": false}}";

static void export_reads_back_the_same(void)
{
	expect_round_trip("{\"version\": 1}");
	expect_round_trip(full);
}

static void export_spells_out_identities(void)
{
	struct config *config = load_good("{\"version\": 1, \"subsystems\": [{\"nqn\": \"" NQN_A
					  "\", \"namespaces\": [{\"media\": \"mem:1M\"}]}]}");
	json_t *document = config_to_json(config);
	json_t *subsystem = json_array_get(json_object_get(document, "subsystems"), 0);
	json_t *ns = json_array_get(json_object_get(subsystem, "namespaces"), 0);
	char uuid[UUID_TEXT_BYTES];

	EXPECT_EQ(20, strlen(json_string_value(json_object_get(subsystem, "serial"))));
	EXPECT_STR(uuid_format(&config->subsystems[0].namespaces[0].uuid, uuid),
		   json_string_value(json_object_get(ns, "uuid")));
	EXPECT_EQ(32, strlen(json_string_value(json_object_get(ns, "nguid"))));
	EXPECT_STR("4420",
		   json_string_value(json_object_get(
			   json_array_get(json_object_get(document, "ports"), 0), "service")));
	EXPECT(json_object_get(json_object_get(document, "limits"), "kato_max_ms") != NULL);
	json_decref(document);
	config_free(config);
}

static void what_the_program_adds_is_not_exported(void)
{
	struct config *config = load_good("{\"version\": 1, \"subsystems\": [{\"nqn\": \"" NQN_A
					  "\"}], \"ports\": [{\"subsystems\": [\"" NQN_A "\"]}]}");
	struct net_addr addr;
	char *before = dump(config), *after;

	EXPECT_EQ(0, net_addr_parse("127.0.0.1", 8009, &addr));
	EXPECT(config_add_discovery_port(config, &addr));
	EXPECT_EQ(0, config_add_private_subsystem(config, NQN_B, HOST1, "mem:1M", 1));
	after = dump(config);
	EXPECT_STR(before, after);
	free(before);
	free(after);
	config_free(config);
}

static void an_identity_survives_growth(void)
{
	struct config *small = load_good("{\"version\": 1, \"subsystems\": [{\"nqn\": \"" NQN_A
					 "\", \"namespaces\": [{\"media\": \"mem:1M\"},"
					 "{\"media\": \"file:/x,size=1M\"}]}]}");
	struct config *large = load_good("{\"version\": 1, \"subsystems\": [{\"nqn\": \"" NQN_A
					 "\", \"namespaces\": [{\"media\": \"mem:2M\"},"
					 "{\"media\": \"file:/x,size=2M\"}]}]}");

	for (unsigned i = 0; i < 2; i++)
		EXPECT(uuid_equal(&small->subsystems[0].namespaces[i].uuid,
				  &large->subsystems[0].namespaces[i].uuid));
	config_free(small);
	config_free(large);
}

static void expect_diff(const char *from_text, const char *to_text, const char *wanted)
{
	struct config *from = load_good(from_text), *to = load_good(to_text);
	char *diff = from && to ? config_diff(from, to) : NULL;

	EXPECT(diff != NULL);
	EXPECT_STR(wanted, diff ? diff : "");
	free(diff);
	config_free(from);
	config_free(to);
}

#define ONE(body) "{\"version\": 1, \"subsystems\": [{\"nqn\": \"" NQN_A "\", " body "}]}"
#define NS(body)                                                                                   \
	ONE("\"namespaces\": [{\"uuid\": \"6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e3f\", " body "}]")

static void differences_are_told_in_lines(void)
{
	expect_diff("{\"version\": 1}", ONE("\"namespaces\": [{\"media\": \"mem:1M\"}]"),
		    "+ subsystem " NQN_A "\n+ namespace " NQN_A "/1: mem:1M\n");
	expect_diff(ONE("\"namespaces\": [{\"media\": \"mem:1M\"}]"), "{\"version\": 1}",
		    "- subsystem " NQN_A "\n- namespace " NQN_A "/1: mem:1M\n");
	expect_diff(NS("\"media\": \"mem:1G\""), NS("\"media\": \"mem:2G\""),
		    "~ namespace " NQN_A "/1: size 1 GiB -> 2 GiB\n");
	expect_diff(NS("\"media\": \"mem:1G\""), NS("\"media\": \"mem:1G,block=512\""),
		    "~ namespace " NQN_A "/1: media mem:1G -> mem:1G,block=512\n");
	expect_diff(NS("\"media\": \"mem:1G\""),
		    NS("\"media\": \"mem:1G\", \"hosts\": [\"" HOST1 "\"]"),
		    "~ namespace " NQN_A "/1: hosts none -> [\"" HOST1 "\"]\n");
	expect_diff(NS("\"media\": \"mem:1G\", \"hosts\": [\"" HOST2 "\"]"),
		    NS("\"media\": \"mem:1G\", \"hosts\": [\"" HOST1 "\"], \"label\": \"x\""),
		    "~ namespace " NQN_A "/1: hosts -" HOST2 " +" HOST1 "\n"
		    "~ namespace " NQN_A "/1: label none -> x\n");
	expect_diff(ONE("\"model\": \"x\""), ONE("\"model\": \"y\""),
		    "~ subsystem " NQN_A ": model x -> y\n");
	expect_diff("{\"version\": 1}",
		    "{\"version\": 1, \"ports\": [{\"id\": 2, \"service\": \"7\"}],"
		    " \"limits\": {\"io_queues\": 9}}",
		    "- port 1: 127.0.0.1:4420\n+ port 2: 127.0.0.1:7\n"
		    "~ limits: io_queues 128 -> 9\n");
}

static void expect_transition(const char *from_text, const char *to_text, const char *refusal)
{
	struct config *from = load_good(from_text), *to = load_good(to_text);
	int res;

	memset(&errors, 0, sizeof(errors));
	res = config_check_transition(from, to, &errors);
	EXPECT_EQ(refusal ? -EINVAL : 0, res);
	EXPECT_EQ(refusal ? 1 : 0, errors.count);
	if (refusal)
		EXPECT(says(refusal));
	config_free(from);
	config_free(to);
}

static void some_steps_are_not_possible(void)
{
	expect_transition(NS("\"media\": \"mem:1G\""), NS("\"media\": \"mem:2G\""), NULL);
	expect_transition(NS("\"media\": \"mem:2G\""), NS("\"media\": \"mem:1G\""),
			  "cannot shrink to 1073741824");
	expect_transition(NS("\"media\": \"file:/x,size=2G\""),
			  NS("\"media\": \"file:/x,size=1G\""), "cannot shrink");
	expect_transition(NS("\"media\": \"file:/x,size=2G\""), NS("\"media\": \"file:/x\""), NULL);
	expect_transition(NS("\"media\": \"file:/x,size=2G\""),
			  NS("\"media\": \"file:/y,size=1G\""), NULL);
	expect_transition(NS("\"media\": \"mem:1G\", \"write_protect\": \"permanent\""),
			  NS("\"media\": \"mem:1G\""), "is write protected (permanent)");
	expect_transition(NS("\"media\": \"mem:1G\", \"write_protect\": \"until-power-cycle\""),
			  NS("\"media\": \"mem:1G\""), "is write protected (until-power-cycle)");
	/* The administrator's word is last, when it is a word. */
	expect_transition(NS("\"media\": \"mem:1G\", \"write_protect\": \"permanent\""),
			  NS("\"media\": \"mem:1G\", \"write_protect\": \"none\""), NULL);
	expect_transition(NS("\"media\": \"mem:1G\", \"write_protect\": \"permanent\""),
			  NS("\"media\": \"mem:1G\", \"write_protect\": \"until-power-cycle\""),
			  NULL);
	expect_transition(NS("\"media\": \"mem:1G\", \"write_protect\": \"until-power-cycle\""),
			  NS("\"media\": \"mem:1G\", \"write_protect\": \"protected\""), NULL);
	expect_transition(NS("\"media\": \"mem:1G\", \"write_protect\": \"protected\""),
			  NS("\"media\": \"mem:1G\""), NULL);
	EXPECT_EQ(0, config_check_transition(NULL, NULL, &errors));
}

static void a_start_ends_the_power_cycle(void)
{
	json_t *document = json_loads(full, 0, NULL);
	struct config *config = NULL;

	config_end_power_cycle(document);
	memset(&errors, 0, sizeof(errors));
	EXPECT_EQ(0, config_load_json(document, &config, &errors));
	EXPECT_EQ(NS_WRITE_PROTECT_PERMANENT, config->subsystems[1].namespaces[0].write_protect);
	EXPECT_EQ(NS_WRITE_PROTECT_NONE, config->subsystems[1].namespaces[1].write_protect);
	EXPECT_EQ(NS_WRITE_PROTECT_ON, config->subsystems[1].namespaces[3].write_protect);
	json_decref(document);
	config_free(config);
	/* Whatever it is given. */
	config_end_power_cycle(NULL);
}

static void new_keys_are_read_strictly(void)
{
	expect_error(NS("\"media\": \"mem:1M\", \"hosts\": \"x\""),
		     "subsystems[0].namespaces[0].hosts: must be a list");
	expect_error(NS("\"media\": \"mem:1M\", \"hosts\": [\"h1\"]"),
		     "subsystems[0].namespaces[0].hosts[0]: \"h1\"");
	expect_error(NS("\"media\": \"mem:1M\", \"hidden_from\": [\"" HOST1 "\", \"" HOST1 "\"]"),
		     "hidden_from[1]: \"" HOST1 "\" is listed twice");
	expect_error(NS("\"media\": \"mem:1M\", \"write_protect\": \"yes\""),
		     "write_protect: \"yes\" must be \"none\", \"protected\"");
	expect_error(NS("\"media\": \"mem:1M\", \"private\": true"), "private: needs \"hosts\"");
	expect_error(NS("\"media\": \"mem:1M\", \"private\": true, \"hosts\": [\"" HOST1
			"\", \"" HOST2 "\"]"),
		     "hosts: lists 2 hosts");
	expect_error(NS("\"media\": \"mem:1M\", \"private\": 1"), "private: must be true or false");
	expect_error(NS("\"media\": \"mem:1M\", \"labels\": \"x\""), "labels: is not known here");
	expect_error(ONE("\"pool\": {}"), "pool.folder: is missing");
	expect_error(ONE("\"pool\": {\"folder\": \"/p\"}"), "pool.capacity: is missing");
	expect_error(ONE("\"pool\": 1"), "pool: must be an object");
	expect_error(ONE("\"pool\": {\"folder\": \"p\", \"capacity\": \"1G\"}"),
		     "pool.folder: \"p\" must be an absolute path");
	expect_error(ONE("\"pool\": {\"folder\": \"/p,q\", \"capacity\": \"1G\"}"),
		     "without a comma");
	expect_error(ONE("\"pool\": {\"folder\": \"/p\", \"capacity\": \"much\"}"),
		     "pool.capacity: \"much\" is not a size");
	expect_error(ONE("\"pool\": {\"folder\": \"/p\", \"capacity\": \"0\"}"), "is not a size");
	expect_error(ONE("\"pool\": {\"folder\": \"/p\", \"capacity\": \"1M\"}, \"namespaces\": ["
			 "{\"media\": \"file:/p/a,size=1M\"}, {\"media\": \"file:/p/b,size=4K\"}]"),
		     "pool: its namespaces have 1052672 bytes, its capacity is 1048576");
	expect_error("{\"version\": 1, \"subsystems\": ["
		     "{\"nqn\": \"" NQN_A "\", \"pool\": {\"folder\": \"/p\", \"capacity\": "
		     "\"1M\"}},"
		     "{\"nqn\": \"" NQN_B "\", \"pool\": {\"folder\": \"/p/\", \"capacity\": "
		     "\"1M\"}}]}",
		     "subsystems[1].pool: /p/ is the pool of subsystems[0] too");
}

static void a_label_has_256_bytes(void)
{
	char text[1024], label[300];

	memset(label, 'x', sizeof(label));
	label[TARGET_NS_LABEL_BYTES] = 0;
	snprintf(text, sizeof(text), NS("\"media\": \"mem:1M\", \"label\": \"%s\""), label);
	config_free(load_good(text));
	label[TARGET_NS_LABEL_BYTES] = 'x';
	label[TARGET_NS_LABEL_BYTES + 1] = 0;
	snprintf(text, sizeof(text), NS("\"media\": \"mem:1M\", \"label\": \"%s\""), label);
	expect_error(text, "label: has 257 bytes, at most 256");
}

/* Export would make it a clash that nobody wrote. */
static void a_given_uuid_may_not_be_a_derived_one(void)
{
	struct config *config = load_good(ONE("\"namespaces\": [{\"media\": \"mem:1M\"}]"));
	char text[1024], uuid[UUID_TEXT_BYTES];

	snprintf(text, sizeof(text),
		 ONE("\"namespaces\": [{\"media\": \"mem:1M\"}, {\"media\": \"mem:1M\", \"uuid\": "
		     "\"%s\"}]"),
		 uuid_format(&config->subsystems[0].namespaces[0].uuid, uuid));
	expect_error(text, "uuid: is that of subsystems[0].namespaces[0] too");
	config_free(config);
}

int main(void)
{
	TAP_RUN(export_reads_back_the_same);
	TAP_RUN(export_spells_out_identities);
	TAP_RUN(what_the_program_adds_is_not_exported);
	TAP_RUN(an_identity_survives_growth);
	TAP_RUN(differences_are_told_in_lines);
	TAP_RUN(some_steps_are_not_possible);
	TAP_RUN(a_start_ends_the_power_cycle);
	TAP_RUN(new_keys_are_read_strictly);
	TAP_RUN(a_label_has_256_bytes);
	TAP_RUN(a_given_uuid_may_not_be_a_derived_one);
	return tap_end();
}
