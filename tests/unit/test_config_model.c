/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration as a document that is written, compared and changed: an export reads back the
 * same, byte for byte; each difference is one line; a change that the state in force forbids is
 * refused; masks, protection, labels and pools are read strictly.
 */
#include "config/config.h"

#include "config_text.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

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

/* One object of every kind, out of order. */
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
	struct config *config =
		load_good("{\"version\": 1, \"subsystems\": [{\"nqn\": \"" NQN_A
			  "\", \"namespaces\": [{\"media\": \"file:/a\"}, {\"media\": "
			  "\"mem:1M\"}]}]}");
	json_t *document = config_to_json(config);
	json_t *subsystem = json_array_get(json_object_get(document, "subsystems"), 0);
	json_t *ns = json_array_get(json_object_get(subsystem, "namespaces"), 0);
	char uuid[UUID_TEXT_BYTES];

	EXPECT_EQ(20, strlen(json_string_value(json_object_get(subsystem, "serial"))));
	EXPECT_STR(uuid_format(&config->subsystems[0].namespaces[0].uuid, uuid),
		   json_string_value(json_object_get(ns, "uuid")));
	EXPECT_EQ(32, strlen(json_string_value(json_object_get(ns, "nguid"))));
	/* Memory gets a new UUID at every start, so the document does not contain it. */
	ns = json_array_get(json_object_get(subsystem, "namespaces"), 1);
	EXPECT(!json_object_get(ns, "uuid") && !json_object_get(ns, "nguid"));
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
	const struct uuid uuid = {.bytes = {1}};
	struct net_addr addr;
	char *before = dump(config), *after;

	EXPECT_EQ(0, net_addr_parse("127.0.0.1", 8009, &addr));
	EXPECT(config_add_discovery_port(config, &addr));
	EXPECT_EQ(0, config_add_private_subsystem(config, NQN_B, HOST1, "mem:1M", &uuid, 1));
	after = dump(config);
	EXPECT_STR(before, after);
	free(before);
	free(after);
	config_free(config);
}

/* Loads `text` as the document that follows `known`. */
static struct config *load_after(const struct config *known, const char *text)
{
	struct config *config = NULL;

	memset(&errors, 0, sizeof(errors));
	EXPECT_EQ(0, config_load_text(text, strlen(text), &config, &errors));
	EXPECT_EQ(0, config_identify(config, known, &errors));
	return config;
}

static const struct config_ns *first_ns(const struct config *config)
{
	return &config->subsystems[0].namespaces[0];
}

#define SPACES(list)                                                                               \
	"{\"version\": 1, \"subsystems\": [{\"nqn\": \"" NQN_A "\", \"namespaces\": [" list "]}]}"

static void an_identity_survives_growth(void)
{
	struct config *small =
		load_good(SPACES("{\"media\": \"mem:1M\"}, {\"media\": \"file:/x,size=1M\"}"));
	struct config *large = load_after(
		small, SPACES("{\"media\": \"mem:2M\"}, {\"media\": \"file:/x,size=2M\"}"));

	for (unsigned i = 0; i < 2; i++) {
		const struct config_ns *was = &small->subsystems[0].namespaces[i];
		const struct config_ns *is = &large->subsystems[0].namespaces[i];

		EXPECT(uuid_equal(&was->uuid, &is->uuid));
		EXPECT_EQ(0, memcmp(was->nguid, is->nguid, sizeof(is->nguid)));
		EXPECT(is->has_made_identity);
	}
	EXPECT_STR(small->subsystems[0].serial, large->subsystems[0].serial);
	config_free(small);
	config_free(large);
}

static void other_media_or_numbers_are_other_namespaces(void)
{
	struct config *before = load_good(SPACES("{\"media\": \"file:/x,size=1M\"}"));
	struct config *media = load_after(before, SPACES("{\"media\": \"file:/y,size=1M\"}"));
	struct config *number =
		load_after(before, SPACES("{\"nsid\": 2, \"media\": \"file:/x,size=1M\"}"));
	struct config *gone = load_after(before, SPACES(""));
	struct config *again = load_after(gone, SPACES("{\"media\": \"file:/x,size=1M\"}"));

	EXPECT(!uuid_equal(&first_ns(before)->uuid, &first_ns(media)->uuid));
	EXPECT(!uuid_equal(&first_ns(before)->uuid, &first_ns(number)->uuid));
	EXPECT(!uuid_equal(&first_ns(before)->uuid, &first_ns(again)->uuid));
	EXPECT_STR(before->subsystems[0].serial, again->subsystems[0].serial);
	config_free(before);
	config_free(media);
	config_free(number);
	config_free(gone);
	config_free(again);
}

#define UUID "6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e3f"

static void a_given_identity_wins_and_stays(void)
{
	struct config *made = load_good(SPACES("{\"media\": \"mem:1M\"}"));
	struct config *given =
		load_after(made, SPACES("{\"media\": \"mem:1M\", \"uuid\": \"" UUID "\"}"));
	struct config *silent = load_after(given, SPACES("{\"media\": \"mem:1M\"}"));
	char text[UUID_TEXT_BYTES], *document;

	EXPECT_STR(UUID, uuid_format(&first_ns(given)->uuid, text));
	EXPECT(!first_ns(given)->has_made_identity);
	EXPECT_EQ(0, memcmp(first_ns(given)->nguid, first_ns(given)->uuid.bytes, 16));
	EXPECT_STR(UUID, uuid_format(&first_ns(silent)->uuid, text));
	document = dump(silent);
	EXPECT(strstr(document, UUID) != NULL);
	free(document);
	config_free(made);
	config_free(given);
	config_free(silent);
}

/* An edit sees the UUID of memory, but the document still does not set it. */
static void an_edit_leaves_a_made_identity_made(void)
{
	struct config *made = load_good(SPACES("{\"media\": \"mem:1M\"}"));
	json_t *document = config_to_edit_json(made);
	char *text = json_dumps(document, 0), *kept;
	struct config *edited = load_after(made, text);

	EXPECT(strstr(text, "uuid") != NULL);
	EXPECT(uuid_equal(&first_ns(made)->uuid, &first_ns(edited)->uuid));
	kept = dump(edited);
	EXPECT(!strstr(kept, "uuid"));
	free(kept);
	free(text);
	json_decref(document);
	config_free(made);
	config_free(edited);
}

/* Earlier versions derived this UUID from the name and saved it. */
static void a_derived_uuid_of_memory_is_forgotten(void)
{
	static const char names[2][40] = {NQN_A "/1/mem", NQN_A "/2//x"};
	char text[512], uuids[2][UUID_TEXT_BYTES];
	json_t *document;
	struct config *config = NULL;

	for (unsigned i = 0; i < 2; i++) {
		struct uuid uuid;

		uuid_from_name(names[i], &uuid);
		uuid_format(&uuid, uuids[i]);
	}
	snprintf(text, sizeof(text),
		 SPACES("{\"nsid\": 1, \"media\": \"mem:1M\", \"uuid\": \"%s\"}, {\"nsid\": 2, "
			"\"media\": \"file:/x\", \"uuid\": \"%s\"}, {\"nsid\": 3, \"media\": "
			"\"mem:1M\", \"uuid\": \"" UUID "\"}"),
		 uuids[0], uuids[1]);
	document = json_loads(text, 0, NULL);
	config_forget_derived(document);
	memset(&errors, 0, sizeof(errors));
	EXPECT_EQ(0, config_load_json(document, &config, &errors));
	EXPECT(uuid_is_nil(&config->subsystems[0].namespaces[0].uuid));
	EXPECT_STR(uuids[1], uuid_format(&config->subsystems[0].namespaces[1].uuid, text));
	EXPECT_STR(UUID, uuid_format(&config->subsystems[0].namespaces[2].uuid, text));
	config_free(config);
	json_decref(document);
}

static void expect_diff(const char *from_text, const char *to_text, const char *wanted)
{
	struct config *from = load_good(from_text), *to = load_after(from, to_text);
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
	/* A difference too small to show in GiB. */
	expect_diff(NS("\"media\": \"mem:1073741824\""), NS("\"media\": \"mem:1073745920\""),
		    "~ namespace " NQN_A "/1: size 1073741824 -> 1073745920 bytes\n");
	expect_diff(NS("\"media\": \"mem:1G\""), NS("\"media\": \"mem:1G,block=512\""),
		    "~ namespace " NQN_A "/1: media mem:1G -> mem:1G,block=512\n");
	expect_diff(NS("\"media\": \"mem:1G\""),
		    NS("\"media\": \"mem:1G\", \"hosts\": [\"" HOST1 "\"]"),
		    "~ namespace " NQN_A "/1: hosts any -> " HOST1 "\n");
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
	struct config *from = load_good(from_text), *to = load_after(from, to_text);
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
	/* An explicit value in the document overrides the protection. */
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

#define CLUSTERED(ns, answer_ms, fence)                                                            \
	"{\"version\": 1, \"subsystems\": [{\"nqn\": \"" NQN_A "\", \"serial\": \"s\","            \
	"\"namespaces\": [{\"uuid\": \"6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e3f\", "                   \
	"\"media\": \"file:/x\"" ns                                                                \
	"}]}], \"cluster\": {\"name\": \"a\", \"listen\": \"unix:/a\", "                           \
	"\"secret_file\": \"/s\", \"cntlids\": [1, 9], \"answer_ms\": " answer_ms                  \
	", \"peers\": [{"                                                                          \
	"\"name\": \"b\", \"address\": \"unix:/b\", \"cntlids\": [10, 19]" fence "}]}}"

/* The tables of fields define which ones. */
static void fixed_fields_change_with_a_restart(void)
{
	static const char plain[] = CLUSTERED("", "500", "");
	static const char shared[] = CLUSTERED(", \"clustered\": true", "500", "");
	static const char alone[] = NS("\"media\": \"file:/x\"");

	expect_transition(plain, plain, NULL);
	expect_transition(plain, CLUSTERED(", \"label\": \"x\"", "500", ""), NULL);
	expect_transition(plain, CLUSTERED("", "500", ", \"fence\": \"kill\""), NULL);
	expect_transition(plain, shared,
			  NQN_A ", namespace 1: \"clustered\" is fixed while the target runs");
	expect_transition(shared, plain, "\"clustered\" is fixed while the target runs");
	expect_transition(plain, CLUSTERED("", "501", ""),
			  "cluster: is fixed while the target runs");
	expect_transition(plain, CLUSTERED("", "500", ", \"fence\": \"none\""),
			  "cluster: is fixed");
	expect_transition(plain, alone, "cluster: is fixed");
	expect_transition(alone, plain, "cluster: is fixed");
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
	/* Accepts NULL. */
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
	expect_error(NS("\"media\": \"mem:1M\", \"labels\": \"x\""), "labels: is not a known key");
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
	/* The sum of the sizes is above 2^64 and does not wrap. */
	expect_error(ONE("\"pool\": {\"folder\": \"/p\", \"capacity\": \"1M\"}, \"namespaces\": ["
			 "{\"media\": \"file:/p/a,size=8388607T\"},"
			 "{\"media\": \"file:/p/b,size=8388607T\"},"
			 "{\"media\": \"file:/p/c,size=8388607T\"}]"),
		     "pool: its namespaces have 18446744073709551615 bytes");
	expect_error("{\"version\": 1, \"subsystems\": ["
		     "{\"nqn\": \"" NQN_A "\", \"pool\": {\"folder\": \"/p\", \"capacity\": "
		     "\"1M\"}},"
		     "{\"nqn\": \"" NQN_B "\", \"pool\": {\"folder\": \"/p/\", \"capacity\": "
		     "\"1M\"}}]}",
		     "subsystems[1].pool: /p/ is the pool of subsystems[0] too");
}

static void pools_of_two_folders_are_two_pools(void)
{
	static const char *const others[] = {"/q", "/pp", "/p/p"};

	for (unsigned i = 0; i < ARRAY_LEN(others); i++) {
		char text[512];

		snprintf(text, sizeof(text),
			 "{\"version\": 1, \"subsystems\": ["
			 "{\"nqn\": \"" NQN_A "\", \"pool\": {\"folder\": \"/p\", \"capacity\": "
			 "\"1M\"}},"
			 "{\"nqn\": \"" NQN_B "\", \"pool\": {\"folder\": \"%s\", \"capacity\": "
			 "\"1M\"}}]}",
			 others[i]);
		config_free(load_good(text));
	}
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
	expect_error(text, "label: has 257 bytes; the maximum is 256");
}

/* The given identity repeats a derived one, which is not in the document. */
static void a_given_identity_may_not_be_anothers(void)
{
	static const char *const forms[] = {"uuid", "nguid"};

	for (unsigned i = 0; i < 2; i++) {
		struct config *before = load_good(SPACES("{\"media\": \"file:/x\"}"));
		struct config *after = NULL;
		char text[1024], given[UUID_TEXT_BYTES];

		uuid_format(&first_ns(before)->uuid, given);
		if (i == 1) {
			const uint8_t *nguid = first_ns(before)->nguid;

			for (unsigned n = 0; n < 16; n++)
				snprintf(given + 2 * n, 3, "%02x", nguid[n]);
		}
		snprintf(text, sizeof(text),
			 SPACES("{\"media\": \"file:/x\"}, {\"media\": \"file:/y\", \"%s\": "
				"\"%s\"}"),
			 forms[i], given);
		memset(&errors, 0, sizeof(errors));
		EXPECT_EQ(0, config_load_text(text, strlen(text), &after, &errors));
		EXPECT_EQ(-EINVAL, config_identify(after, before, &errors));
		EXPECT(says(i == 0 ? "have the same UUID" : "have the same NGUID"));
		config_free(before);
		config_free(after);
	}
}

static void members_of_a_cluster_are_given_theirs(void)
{
	expect_error(SPACES("{\"media\": \"file:/x\", \"clustered\": true}"),
		     "into the documents of all members: \"uuid\": \"");
	expect_error(SPACES("{\"media\": \"file:/x\", \"clustered\": true}"),
		     "into the documents of all members: \"serial\": \"");
}

/* Redirects standard error to a file. Returns the former descriptor. */
static int stderr_take(FILE *file)
{
	int before = dup(STDERR_FILENO);

	CHECK(file && before >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
	return before;
}

static const unsigned error_counts[] = {0, 1, CONFIG_ERRORS_MAX, CONFIG_ERRORS_MAX + 3};

static void errors_fill(unsigned count)
{
	errors.count = 0;
	for (unsigned n = 0; n < count; n++)
		config_errors_add(&errors, "mistake %u", n);
}

/* Each error is one line, then a count of the errors that were not kept. */
static void errors_are_logged_line_by_line(void)
{
	const unsigned *counts = error_counts;

	for (unsigned i = 0; i < ARRAY_LEN(error_counts); i++) {
		FILE *file = tmpfile();
		int before = stderr_take(file);
		unsigned lines = 0;
		char line[512], want[64];

		errors_fill(counts[i]);
		config_errors_log("a document", &errors);
		CHECK(dup2(before, STDERR_FILENO) >= 0 && close(before) == 0);
		rewind(file);
		for (; fgets(line, sizeof(line), file); lines++) {
			snprintf(want, sizeof(want), "a document: mistake %u\n", lines);
			if (lines == CONFIG_ERRORS_MAX)
				snprintf(want, sizeof(want), "a document: ... and 3 errors more\n");
			EXPECT_THAT(strstr(line, want), "line %u of %u: %s", lines, counts[i],
				    line);
		}
		EXPECT_EQ(counts[i] > CONFIG_ERRORS_MAX ? CONFIG_ERRORS_MAX + 1 : counts[i], lines);
		fclose(file);
	}
}

/* Output for the user: only the errors, and a count of the errors that were not kept. */
static void errors_are_printed_line_by_line(void)
{
	for (unsigned i = 0; i < ARRAY_LEN(error_counts); i++) {
		unsigned kept =
			error_counts[i] < CONFIG_ERRORS_MAX ? error_counts[i] : CONFIG_ERRORS_MAX;
		char *got = NULL, *want = NULL;
		size_t got_bytes, want_bytes;
		FILE *file = open_memstream(&got, &got_bytes);
		FILE *wanted = open_memstream(&want, &want_bytes);

		CHECK(file && wanted);
		errors_fill(error_counts[i]);
		config_errors_print(&errors, file);
		for (unsigned n = 0; n < kept; n++)
			fprintf(wanted, "  mistake %u\n", n);
		if (error_counts[i] > kept)
			fprintf(wanted, "  ... and 3 more\n");
		CHECK(fclose(file) == 0 && fclose(wanted) == 0);
		EXPECT_STR(want, got);
		free(got);
		free(want);
	}
}

int main(void)
{
	TAP_RUN(export_reads_back_the_same);
	TAP_RUN(export_spells_out_identities);
	TAP_RUN(what_the_program_adds_is_not_exported);
	TAP_RUN(an_identity_survives_growth);
	TAP_RUN(differences_are_told_in_lines);
	TAP_RUN(some_steps_are_not_possible);
	TAP_RUN(fixed_fields_change_with_a_restart);
	TAP_RUN(a_start_ends_the_power_cycle);
	TAP_RUN(new_keys_are_read_strictly);
	TAP_RUN(pools_of_two_folders_are_two_pools);
	TAP_RUN(a_label_has_256_bytes);
	TAP_RUN(other_media_or_numbers_are_other_namespaces);
	TAP_RUN(a_given_identity_wins_and_stays);
	TAP_RUN(an_edit_leaves_a_made_identity_made);
	TAP_RUN(a_derived_uuid_of_memory_is_forgotten);
	TAP_RUN(a_given_identity_may_not_be_anothers);
	TAP_RUN(members_of_a_cluster_are_given_theirs);
	TAP_RUN(errors_are_logged_line_by_line);
	TAP_RUN(errors_are_printed_line_by_line);
	return tap_end();
}
