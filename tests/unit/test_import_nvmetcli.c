/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documents saved by nvmetcli become weft's: two ports with ANA, namespaces with and without
 * identities, hosts. Omitted fields are reported, invalid ones are refused. The samples have the
 * form of `nvmetcli save`: attributes as strings, nested like the kernel's configfs.
 */
#include "config/config.h"

#include "tap.h"

#include <stdlib.h>

static struct config_errors errors, notes;

static json_t *import(const char *text)
{
	json_t *saved = json_loads(text, 0, NULL);
	json_t *document;

	memset(&errors, 0, sizeof(errors));
	memset(&notes, 0, sizeof(notes));
	EXPECT(saved != NULL);
	document = config_import_nvmetcli(saved, &errors, &notes);
	EXPECT_EQ(document == NULL, errors.count > 0);
	json_decref(saved);
	return document;
}

static bool list_says(const struct config_errors *list, const char *wanted)
{
	for (unsigned i = 0; i < list->count && i < CONFIG_ERRORS_MAX; i++) {
		if (strstr(list->texts[i], wanted))
			return true;
	}
	for (unsigned i = 0; i < list->count && i < CONFIG_ERRORS_MAX; i++)
		printf("# said: %s\n", list->texts[i]);
	return false;
}

static const char *const full =
	"{\"hosts\": ["
	"  {\"nqn\": \"nqn.2014-08.org.example:h1\", \"dhchap_hash\": \"hmac(sha256)\","
	"   \"dhchap_key\": \"DHHC-1:00:secret:\", \"dhchap_dhgroup\": \"null\"},"
	"  {\"nqn\": \"nqn.2014-08.org.example:h2\"}],"
	" \"ports\": ["
	"  {\"addr\": {\"adrfam\": \"ipv4\", \"traddr\": \"192.0.2.1\", \"treq\": \"not "
	"specified\","
	"    \"trsvcid\": \"4420\", \"trtype\": \"tcp\", \"tsas\": \"none\"},"
	"   \"ana_groups\": [{\"ana\": {\"state\": \"optimized\"}, \"grpid\": 1},"
	"                    {\"ana\": {\"state\": \"non-optimized\"}, \"grpid\": 2}],"
	"   \"param\": {\"inline_data_size\": \"16384\", \"pi_enable\": \"0\"},"
	"   \"portid\": 1, \"referrals\": [{\"addr\": {\"traddr\": \"192.0.2.9\"}}],"
	"   \"subsystems\": [\"nqn.2014-08.org.example:s1\"]},"
	"  {\"addr\": {\"adrfam\": \"ipv4\", \"traddr\": \"192.0.2.2\", \"trsvcid\": \"4420\","
	"    \"trtype\": \"rdma\"}, \"portid\": 2,"
	"   \"subsystems\": [\"nqn.2014-08.org.example:s1\"]},"
	"  {\"addr\": {\"adrfam\": \"ipv6\", \"traddr\": \"2001:db8::1\", \"trsvcid\": \"4421\","
	"    \"trtype\": \"tcp\"}, \"portid\": 0, \"subsystems\": []}],"
	" \"subsystems\": ["
	"  {\"nqn\": \"nqn.2014-08.org.example:s1\","
	"   \"allowed_hosts\": [\"nqn.2014-08.org.example:h2\", \"nqn.2014-08.org.example:h1\"],"
	"   \"attr\": {\"allow_any_host\": \"0\", \"cntlid_max\": \"65519\", \"model\": \"Linux\","
	"              \"serial\": \"0123456789abcdef\", \"version\": \"1.3\"},"
	"   \"namespaces\": ["
	"    {\"ana\": {\"state\": \"optimized\"}, \"ana_grpid\": 2,"
	"     \"device\": {\"nguid\": \"00112233-4455-6677-8899-aabbccddeeff\","
	"                  \"path\": \"/dev/vg0/one\","
	"                  \"uuid\": \"6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e3f\"},"
	"     \"enable\": 1, \"nsid\": 3},"
	"    {\"device\": {\"nguid\": \"00000000-0000-0000-0000-000000000000\","
	"                  \"path\": \"/srv/two.img\","
	"                  \"uuid\": \"00000000-0000-0000-0000-000000000000\"},"
	"     \"enable\": \"1\", \"nsid\": \"1\", \"buffered_io\": \"1\"},"
	"    {\"device\": {\"path\": \"/srv/off.img\"}, \"enable\": 0, \"nsid\": 7}]}]}";

static void a_saved_target_is_carried_over(void)
{
	json_t *document = import(full);
	struct config *config = NULL;
	const struct config_subsystem *subsystem;
	char uuid[UUID_TEXT_BYTES];

	EXPECT_EQ(0, config_load_json(document, &config, &errors));
	EXPECT_EQ(1, config->subsystem_count);
	subsystem = &config->subsystems[0];
	EXPECT_STR("nqn.2014-08.org.example:s1", subsystem->nqn);
	EXPECT_STR("0123456789abcdef", subsystem->serial);
	EXPECT_STR("Linux", subsystem->model);
	EXPECT(!subsystem->allows_any_host);
	EXPECT_EQ(2, subsystem->host_count);
	EXPECT_EQ(2, subsystem->ns_count);
	EXPECT_STR("file:/srv/two.img", subsystem->namespaces[0].media);
	EXPECT_EQ(1, subsystem->namespaces[0].nsid);
	EXPECT_STR("file:/dev/vg0/one", subsystem->namespaces[1].media);
	EXPECT_EQ(2, subsystem->namespaces[1].ana_group);
	EXPECT_STR("6f1c7b9a-52e0-4d0b-9a39-1f0f5c1d2e3f",
		   uuid_format(&subsystem->namespaces[1].uuid, uuid));
	EXPECT_EQ(0xff, subsystem->namespaces[1].nguid[15]);
	EXPECT_EQ(2, config->port_count);
	EXPECT_EQ(1, config->ports[0].id);
	EXPECT_EQ(1, config->ports[0].subsystem_count);
	EXPECT_EQ(1, config->ports[0].ana_count);
	EXPECT_EQ(ANA_NON_OPTIMIZED, config->ports[0].ana[0].state);
	EXPECT_EQ(65535, config->ports[1].id);
	EXPECT(!config->ports[1].offers_all);
	config_free(config);
	json_decref(document);
}

static void what_is_left_out_is_named(void)
{
	json_decref(import(full));
	EXPECT(list_says(&notes, "host nqn.2014-08.org.example:h1: \"dhchap_key\""));
	EXPECT(list_says(&notes, "port 1: its referrals"));
	EXPECT(list_says(&notes, "port 1: \"inline_data_size\" 16384"));
	EXPECT(list_says(&notes, "port 1: \"pi_enable\""));
	EXPECT(list_says(&notes, "port 2 has the transport \"rdma\""));
	EXPECT(list_says(&notes, "port 0 becomes port 65535"));
	EXPECT(list_says(&notes, "namespace 7 is not enabled: left out"));
	EXPECT(list_says(&notes, "namespace 1: \"buffered_io\""));
	EXPECT(list_says(&notes, "nqn.2014-08.org.example:s1: \"cntlid_max\""));
	EXPECT_EQ(9, notes.count);
}

static void an_empty_target_is_one_too(void)
{
	json_t *document = import("{\"hosts\": [], \"ports\": [], \"subsystems\": []}");

	EXPECT(list_says(&notes, "no port can be carried over"));
	EXPECT(json_object_get(document, "ports") == NULL);
	json_decref(document);
}

static void expect_error(const char *text, const char *wanted)
{
	json_t *document = import(text);

	EXPECT(document == NULL);
	EXPECT(list_says(&errors, wanted));
	json_decref(document);
}

#define ONE_NS(rest)                                                                               \
	"{\"subsystems\": [{\"nqn\": \"nqn.2014-08.org.example:s1\", \"namespaces\": ["            \
	"{\"enable\": 1, \"device\": {\"path\": \"/x\"}, " rest "}]}]}"
#define NGUID(text)                                                                                \
	"{\"subsystems\": [{\"nqn\": \"nqn.2014-08.org.example:s1\", \"namespaces\": ["            \
	"{\"enable\": 1, \"nsid\": 1, \"device\": {\"path\": \"/x\", \"nguid\": \"" text           \
	"\"}}]}]}"

/* An incomplete NGUID is refused: with another one hosts would see another disk. */
static const char *const bad_nguids[] = {
	NGUID("1"),
	NGUID("00112233-4455-6677-8899-aabbccddeef"),
	NGUID("00112233-4455-6677-8899-aabbccddeeff0"),
	NGUID("00112233-4455-6677-8899-aabbccddeefg"),
	NGUID("00112233-4455-6677-8899-aabbccddeeffg"),
};

static void nonsense_is_refused(void)
{
	expect_error("[]", "not a document of `nvmetcli save`");
	expect_error("{\"version\": 1}", "not a document of `nvmetcli save`");
	expect_error("{\"subsystems\": [{\"attr\": {}}]}", "a subsystem without \"nqn\"");
	expect_error("{\"subsystems\": [7]}", "a subsystem without \"nqn\"");
	expect_error("{\"ports\": [{\"addr\": {\"trtype\": \"tcp\"}}]}",
		     "a port without \"portid\"");
	expect_error("{\"subsystems\": [{\"nqn\": \"nqn.2014-08.org.example:s1\", \"namespaces\": ["
		     "{\"enable\": 1, \"device\": {\"path\": \"/x\"}}]}]}",
		     "a namespace without \"nsid\"");
	expect_error("{\"subsystems\": [{\"nqn\": \"nqn.2014-08.org.example:s1\", \"namespaces\": ["
		     "{\"enable\": 1, \"nsid\": 1, \"device\": {}}]}]}",
		     "namespace 1: \"device\".\"path\" is missing");
	expect_error(
		"{\"ports\": [{\"portid\": 1, \"addr\": {\"trtype\": \"tcp\"}, \"ana_groups\": "
		"[{\"grpid\": 1, \"ana\": {\"state\": \"odd\"}}]}]}",
		"with the state \"odd\"");
	/* Checked by the rules for weft's own documents. */
	expect_error("{\"subsystems\": [{\"nqn\": \"sub1\"}]}", "subsystems[0].nqn: \"sub1\"");
	expect_error(ONE_NS("\"nsid\": 4294967295"), "nsid: is 4294967295, must be 1 to");
	expect_error(ONE_NS("\"nsid\": 4294967296"), "a namespace without \"nsid\"");
	for (unsigned i = 0; i < sizeof(bad_nguids) / sizeof(bad_nguids[0]); i++)
		expect_error(bad_nguids[i], "nguid: must be 32 hexadecimal");
	expect_error("{\"subsystems\": [], \"ports\": [{\"portid\": 1, \"addr\": {\"trtype\": "
		     "\"tcp\", \"traddr\": \"host.example\"}}]}",
		     "ports[0].address");
}

int main(void)
{
	TAP_RUN(a_saved_target_is_carried_over);
	TAP_RUN(what_is_left_out_is_named);
	TAP_RUN(an_empty_target_is_one_too);
	TAP_RUN(nonsense_is_refused);
	return tap_end();
}
