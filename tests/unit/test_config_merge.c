/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft serve --merge`: merges a document into the saved one. Given fields replace the saved ones,
 * lists are united, elements are matched by name or by what they describe, nothing is removed.
 * weft-serve(1), STATE.
 */
#include "base/check.h"
#include "config/config.h"

#include "tap.h"

#include <errno.h>
#include <stdlib.h>

#define NQN   "nqn.2026-11.io.weft:a"
#define OTHER "nqn.2026-11.io.weft:b"
#define HOST1 "nqn.2014-08.org.example:h1"
#define HOST2 "nqn.2014-08.org.example:h2"

/* Documents are written with ' for ". */
#define SUBSYSTEM(rest) "{'version': 1, 'subsystems': [{'nqn': '" NQN "', " rest "}]}"
#define NS(rest)        SUBSYSTEM("'namespaces': [{'nsid': 1, " rest "}]")
#define PORTS(ports)    "{'version': 1, 'ports': [" ports "]}"
#define PORT(rest)      PORTS("{'id': 1, 'address': '127.0.0.1', 'service': '4420', " rest "}")

static struct config_errors errors;

static json_t *json_of(const char *text)
{
	char *copy = strdup(text);
	json_error_t error;
	json_t *json;

	for (char *c = copy; *c != 0; c++)
		*c = *c == '\'' ? '"' : *c;
	json = json_loads(copy, JSON_REJECT_DUPLICATES, &error);
	if (!json)
		printf("# %s: %s\n", error.text, copy);
	free(copy);
	return json;
}

/* An empty list or object of the root equals a missing one. */
static void expect_merge(const char *saved_text, const char *more_text, const char *wanted_text)
{
	json_t *saved = json_of(saved_text), *more = json_of(more_text);
	json_t *wanted = json_of(wanted_text);
	static const char *const keys[] = {"subsystems", "ports", "limits"};
	char *got, *want;

	memset(&errors, 0, sizeof(errors));
	EXPECT_EQ(0, config_merge(saved, more, &errors));
	for (unsigned i = 0; i < ARRAY_LEN(keys); i++) {
		const json_t *value = json_object_get(saved, keys[i]);

		if (json_array_size(value) == 0 && json_object_size(value) == 0)
			json_object_del(saved, keys[i]);
	}
	got = json_dumps(saved, JSON_SORT_KEYS);
	want = json_dumps(wanted, JSON_SORT_KEYS);
	EXPECT_STR(want, got);
	free(got);
	free(want);
	json_decref(saved);
	json_decref(more);
	json_decref(wanted);
}

static void expect_refusal(const char *saved_text, const char *more_text, const char *wanted)
{
	json_t *saved = json_of(saved_text), *more = json_of(more_text);

	memset(&errors, 0, sizeof(errors));
	EXPECT_EQ(-EINVAL, config_merge(saved, more, &errors));
	EXPECT_EQ(1, errors.count);
	EXPECT(strstr(errors.texts[0], wanted) != NULL);
	json_decref(saved);
	json_decref(more);
}

static void fields_are_set_and_others_stay(void)
{
	expect_merge(SUBSYSTEM("'model': 'x', 'serial': 's'"), SUBSYSTEM("'model': 'y'"),
		     SUBSYSTEM("'model': 'y', 'serial': 's'"));
	expect_merge(SUBSYSTEM("'model': 'x'"),
		     SUBSYSTEM("'pool': {'folder': '/p', 'capacity': '1T'}"),
		     SUBSYSTEM("'model': 'x', 'pool': {'folder': '/p', 'capacity': '1T'}"));
	expect_merge(SUBSYSTEM("'pool': {'folder': '/p', 'capacity': '1T'}"),
		     SUBSYSTEM("'pool': {'folder': '/q', 'capacity': '2T'}"),
		     SUBSYSTEM("'pool': {'folder': '/q', 'capacity': '2T'}"));
	expect_merge("{'version': 1, 'limits': {'io_queues': 1, 'queue_size': 32}}",
		     "{'version': 1, 'limits': {'io_queues': 2}}",
		     "{'version': 1, 'limits': {'io_queues': 2, 'queue_size': 32}}");
	expect_merge("{'version': 1}", "{'version': 1, 'limits': {'io_queues': 2}}",
		     "{'version': 1, 'limits': {'io_queues': 2}}");
	expect_merge(PORT("'zero_copy': 'off'"), PORT("'zero_copy': 'on', 'advertise': '10.0.0.1'"),
		     PORT("'zero_copy': 'on', 'advertise': '10.0.0.1'"));
}

static void the_cluster_stays(void)
{
	expect_merge("{'version': 1, 'cluster': {'name': 'a'}}",
		     "{'version': 1, 'cluster': {'name': 'b'}}",
		     "{'version': 1, 'cluster': {'name': 'a'}}");
}

static void hosts_of_a_subsystem_are_united_and_restrict(void)
{
	expect_merge(SUBSYSTEM("'hosts': ['" HOST1 "'], 'allow_any_host': false"),
		     SUBSYSTEM("'hosts': ['" HOST2 "', '" HOST1 "']"),
		     SUBSYSTEM("'hosts': ['" HOST1 "', '" HOST2 "'], 'allow_any_host': false"));
	expect_merge(SUBSYSTEM("'hosts': [], 'allow_any_host': true"),
		     SUBSYSTEM("'hosts': ['" HOST1 "']"),
		     SUBSYSTEM("'hosts': ['" HOST1 "'], 'allow_any_host': false"));
	expect_merge(SUBSYSTEM("'hosts': [], 'allow_any_host': true"),
		     SUBSYSTEM("'hosts': ['" HOST1 "'], 'allow_any_host': true"),
		     SUBSYSTEM("'hosts': ['" HOST1 "'], 'allow_any_host': true"));
	expect_merge(SUBSYSTEM("'hosts': ['" HOST1 "'], 'allow_any_host': false"),
		     SUBSYSTEM("'allow_any_host': true"),
		     SUBSYSTEM("'hosts': ['" HOST1 "'], 'allow_any_host': true"));
}

static void rights_of_each_host_are_united(void)
{
	expect_merge(SUBSYSTEM("'rights': {'any': ['label'], '" HOST1 "': ['format']}"),
		     SUBSYSTEM("'rights': {'any': ['label', 'format'], '" HOST2 "': ['label']}"),
		     SUBSYSTEM("'rights': {'any': ['label', 'format'], '" HOST1
			       "': ['format'], '" HOST2 "': ['label']}"));
	expect_merge(SUBSYSTEM("'model': 'x'"), SUBSYSTEM("'rights': {'any': ['label']}"),
		     SUBSYSTEM("'model': 'x', 'rights': {'any': ['label']}"));
}

static void hosts_of_a_namespace_are_united(void)
{
	expect_merge(NS("'media': 'mem:1M'"), NS("'media': 'mem:1M', 'hosts': ['" HOST1 "']"),
		     NS("'media': 'mem:1M', 'hosts': ['" HOST1 "']"));
	expect_merge(NS("'media': 'mem:1M', 'hosts': ['" HOST1 "']"),
		     NS("'media': 'mem:1M', 'hosts': ['" HOST2 "']"),
		     NS("'media': 'mem:1M', 'hosts': ['" HOST1 "', '" HOST2 "']"));
	expect_merge(NS("'media': 'mem:1M'"), NS("'media': 'mem:1M', 'hidden_from': ['" HOST1 "']"),
		     NS("'media': 'mem:1M', 'hidden_from': ['" HOST1 "']"));
	expect_merge(
		NS("'media': 'mem:1M', 'hidden_from': ['" HOST1 "']"),
		NS("'media': 'mem:1M', 'hidden_from': ['" HOST2 "'], 'label': 'x'"),
		NS("'media': 'mem:1M', 'hidden_from': ['" HOST1 "', '" HOST2 "'], 'label': 'x'"));
}

static void a_namespace_keeps_its_medium_and_its_size(void)
{
	expect_merge(NS("'media': 'mem:2M'"), NS("'media': 'mem:1M', 'label': 'x'"),
		     NS("'media': 'mem:2M', 'label': 'x'"));
	expect_merge(NS("'media': 'file:/a,size=1M'"), NS("'media': 'file:/a,size=2M'"),
		     NS("'media': 'file:/a,size=2M'"));
	expect_merge(NS("'media': 'file:/a,size=1M'"), NS("'media': 'file:/a'"),
		     NS("'media': 'file:/a,size=1M'"));
	expect_refusal(NS("'media': 'file:/a'"), NS("'media': 'file:/b'"),
		       "namespace " NQN
		       "/1 has file:/a, not file:/b; give the new namespace another NSID");
	expect_refusal(NS("'media': 'file:/a'"), NS("'media': 'mem:1M', 'label': 'x'"), "--reset");
}

static void namespaces_are_found_by_number_or_medium(void)
{
#define TWO "{'nsid': 1, 'media': 'mem:1M'}, {'nsid': 3, 'media': 'file:/a,size=1M'}"
	expect_merge(SUBSYSTEM("'namespaces': [" TWO "]"),
		     SUBSYSTEM("'namespaces': [{'media': 'file:/a', 'label': 'x'}, "
			       "{'media': 'mem:1M'}, {'media': 'mem:1M'}]"),
		     SUBSYSTEM("'namespaces': [{'nsid': 1, 'media': 'mem:1M'}, {'nsid': 3, "
			       "'media': 'file:/a,size=1M', 'label': 'x'}, "
			       "{'nsid': 2, 'media': 'mem:1M'}]"));
	/* Memory of another size is another namespace. */
	expect_merge(SUBSYSTEM("'namespaces': [" TWO "]"),
		     SUBSYSTEM("'namespaces': [{'media': 'mem:2M'}, {'nsid': 9, 'media': "
			       "'null:1M'}]"),
		     SUBSYSTEM("'namespaces': [" TWO ", {'nsid': 2, 'media': 'mem:2M'}, "
			       "{'nsid': 9, 'media': 'null:1M'}]"));
}

static void subsystems_are_found_by_name(void)
{
	expect_merge(SUBSYSTEM("'model': 'x'"),
		     "{'version': 1, 'subsystems': [{'nqn': '" OTHER "', 'model': 'y'}]}",
		     "{'version': 1, 'subsystems': [{'nqn': '" NQN "', 'model': 'x'}, "
		     "{'nqn': '" OTHER "', 'model': 'y'}]}");
}

static void ports_are_found_by_number_or_address(void)
{
	expect_merge(PORT("'zero_copy': 'off'"), PORTS("{'service': '4420', 'zero_copy': 'on'}"),
		     PORT("'zero_copy': 'on'"));
	expect_merge(PORT("'zero_copy': 'off'"), PORTS("{'service': '4421', 'zero_copy': 'on'}"),
		     PORTS("{'id': 1, 'address': '127.0.0.1', 'service': '4420', 'zero_copy': "
			   "'off'}, {'id': 2, 'service': '4421', 'zero_copy': 'on'}"));
	expect_merge(PORTS("{'id': 1, 'address': '::1', 'service': '4420'}"),
		     PORTS("{'address': '::1', 'discovery': true}"),
		     PORTS("{'id': 1, 'address': '::1', 'service': '4420', 'discovery': true}"));
}

static void ports_of_two_transports_share_an_address(void)
{
	expect_merge(PORT("'zero_copy': 'off'"),
		     PORTS("{'transport': 'tcp', 'service': '4420', 'zero_copy': 'on'}"),
		     PORT("'transport': 'tcp', 'zero_copy': 'on'"));
	expect_merge(PORT("'zero_copy': 'off'"), PORTS("{'transport': 'rdma', 'service': '4420'}"),
		     PORTS("{'id': 1, 'address': '127.0.0.1', 'service': '4420', 'zero_copy': "
			   "'off'}, {'id': 2, 'transport': 'rdma', 'service': '4420'}"));
}

static void offers_of_a_port_are_united(void)
{
	expect_merge(PORT("'subsystems': ['" NQN "']"), PORT("'subsystems': ['" OTHER "']"),
		     PORT("'subsystems': ['" NQN "', '" OTHER "']"));
	/* A port without a list already offers all subsystems. */
	expect_merge(PORT("'zero_copy': 'off'"), PORT("'subsystems': ['" OTHER "']"),
		     PORT("'zero_copy': 'off'"));
}

static void states_of_groups_are_set(void)
{
	expect_merge(PORT("'ana': [{'group': 1, 'state': 'optimized'}, {'group': 2, 'state': "
			  "'inaccessible'}]"),
		     PORT("'ana': [{'group': 2, 'state': 'optimized'}, {'group': 3, 'state': "
			  "'non-optimized'}]"),
		     PORT("'ana': [{'group': 1, 'state': 'optimized'}, {'group': 2, 'state': "
			  "'optimized'}, {'group': 3, 'state': 'non-optimized'}]"));
}

int main(void)
{
	TAP_RUN(fields_are_set_and_others_stay);
	TAP_RUN(the_cluster_stays);
	TAP_RUN(hosts_of_a_subsystem_are_united_and_restrict);
	TAP_RUN(rights_of_each_host_are_united);
	TAP_RUN(hosts_of_a_namespace_are_united);
	TAP_RUN(a_namespace_keeps_its_medium_and_its_size);
	TAP_RUN(namespaces_are_found_by_number_or_medium);
	TAP_RUN(subsystems_are_found_by_name);
	TAP_RUN(ports_are_found_by_number_or_address);
	TAP_RUN(ports_of_two_transports_share_an_address);
	TAP_RUN(offers_of_a_port_are_united);
	TAP_RUN(states_of_groups_are_set);
	return tap_end();
}
