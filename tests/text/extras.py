"""Small templates for the Jinja2 and Python behaviour that real ones may use and the corpus happens not to."""
VARIABLES = dict(
    s="Hello, World", e="", n=7, f=0.1, big=9007199254740993, z=1e100, t=True, none=None, l=[3, 1, 2], nested=[[1, 2], [3]],
    d={"b": 1, "a": [1, "x'y", None, 2.5], "items": 3}, rows=[{"k": "x", "v": 2}, {"k": "y", "v": 1}], nul="a\u0000b",
    tree=[{"n": "a", "c": [{"n": "b", "c": []}]}], multi="one\ntwo\r\nthree", spaced="\x1c a b  c \u00a0", w="a  b c",
    messages=[{"role": "user", "content": "x"}])

SOURCES = r"""
{{ t }} {{ none }} {{ f }} {{ big }} {{ z }} {{ l }} {{ d }} {{ nul|tojson }} {{ 1.0 }} {{ 1e22 }} {{ 1/3 }}
{{ d|tojson }}|{{ d|tojson(indent=2) }}|{{ d|tojson(separators=(',', ':')) }}|{{ d|tojson(sort_keys=true) }}|{{ 'é'|tojson(ensure_ascii=true) }}
{{ l|tojson(indent=4) }}{{ []|tojson(indent=2) }}{{ {}|tojson(indent=2) }}{{ [1, 2.0, none, true, "a\"b"]|tojson }}
{{ s[1:4] }} {{ s[::-1] }} {{ s[-3:] }} {{ s[::2] }} {{ l[::-1] }} {{ l[1:] }} {{ l[-1] }} {{ l[5:] }} {{ s[0] }}
{{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ s.capitalize() }} {{ s.swapcase() }} {{ s.replace('l', 'L', 1) }}
{{ s.split(', ') }} {{ w.split() }} {{ w.split(' ') }} {{ w.split(None, 1) }} {{ w.rsplit(' ', 1) }} {{ w.rsplit(None, 1) }} {{ 'a,b,c'.rsplit(',', 1)[0] }}
{{ s.startswith('He') }} {{ s.endswith(('x', 'ld')) }} {{ s.find('o') }} {{ s.rfind('o') }} {{ s.find('zz') }} {{ s.count('l') }} {{ s.index('W') }}
{{ '[' ~ spaced.strip() ~ ']' }}{{ '[' ~ spaced.lstrip() ~ ']' }}{{ '[' ~ spaced|trim ~ ']' }}{{ 'xxaxx'.strip('x') }}{{ 'abc'.rstrip('bc') }}
{{ 'prefix-x'.removeprefix('prefix-') }} {{ 'x.txt'.removesuffix('.txt') }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }}
{{ multi.splitlines() }} {{ multi.splitlines(true) }} {{ '5'.zfill(3) }} {{ 'a'.ljust(3) }}| {{ 'a'.rjust(3, '.') }} {{ 'a'.center(4) }}|
{{ ', '.join(['a', 'b']) }} {{ ['a', 1, none]|join('-') }} {{ rows|map(attribute='k')|join(',') }} {{ rows|join(', ', attribute='v') }}
{{ 'ab1'.isalnum() }} {{ '12'.isdigit() }} {{ 'ab'.isalpha() }} {{ ' '.isspace() }} {{ 'AB'.isupper() }} {{ 'ab'.islower() }}
{{ "%s is %d and %.2f" % ("x", 3, 1.5) }} {{ "%s" % s }} {{ "%s|%r" | format("a", "b") }} {{ "%05d" % n }} {{ "%%" % () }}
{{ "{} {}".format("a", 1) }} {{ "{0}{1}{0}".format("a", "b") }} {{ "{x}".format(x=1) }} {{ "{:>5}|{:.1f}".format("a", 2.55) }}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{{ d.keys()|list }}{{ d.values()|list }}{{ d.get('b') }}{{ d.get('zz', 'no') }}{{ d.get('zz') }}
{% for k, v in d|dictsort %}{{ k }}{% endfor %}{% for k, v in d|items %}{{ k }}{% endfor %}{{ d['items'] }}{{ 'b' in d }}{{ 'zz' not in d }}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}
{% for x in l if x > 1 %}{{ x }}{% else %}none{% endfor %}{% for x in [] %}x{% else %}empty{% endfor %}
{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% endfor %}
{% for x in tree recursive %}{{ x.n }}{% if x.c %}({{ loop(x.c) }}){% endif %}{% endfor %}
{% macro m(a, b='B', c=none) %}[{{ a }}{{ b }}{{ c }}{{ caller() if caller else '' }}]{% endmacro %}{{ m('x') }}{{ m('x', c=1) }}{% call m('y') %}inner{% endcall %}
{% macro outer(x) %}{% call(y) inner(x) %}<{{ y }}>{% endcall %}{% endmacro %}{% macro inner(x) %}{{ caller(x * 2) }}{% endmacro %}{{ outer(4) }}
{% set ns = namespace(a=1, b=[]) %}{% for x in l %}{% set ns.a = ns.a + x %}{% set ns.b = ns.b + [x] %}{% endfor %}{{ ns.a }}{{ ns.b }}
{% set x = 1 %}{% for i in l %}{% set x = i %}{% endfor %}{{ x }}{% if true %}{% set x = 5 %}{% endif %}{{ x }}
{% set block %}a{{ n }}b{% endset %}{{ block }}{% set a, b = [1, 2] %}{{ a }}{{ b }}{% set q | upper %}abc{% endset %}{{ q }}
{{ undefined_thing }}{{ undefined_thing is defined }}{{ undefined_thing|default('d') }}{{ e|default('d', true) }}{{ undefined_thing or 'x' }}{{ d.zz is defined }}{{ d.zz }}
{{ undefined_thing|length }}{% for x in undefined_thing %}x{% endfor %}{{ undefined_thing == none }}{{ not undefined_thing }}{{ undefined_thing|list }}
{{ s is string }}{{ l is iterable }}{{ s is iterable }}{{ d is mapping }}{{ l is sequence }}{{ s is sequence }}{{ d is sequence }}{{ n is number }}{{ t is number }}{{ n is integer }}{{ f is float }}{{ t is boolean }}{{ none is none }}{{ t is true }}{{ t is integer }}{{ d is iterable }}
{{ n is odd }}{{ n is divisibleby 7 }}{{ 3 in l }}{{ 'ell' in s }}{{ n is eq 7 }}{{ n is sameas 7 }}{{ l is not string }}{{ 2 is in l }}{{ raise_exception is callable }}
{{ l|sort }}{{ l|sort(reverse=true) }}{{ l|first }}{{ l|last }}{{ l|sum }}{{ l|max }}{{ l|min }}{{ l|length }}{{ l|reverse|list }}{{ s|reverse }}{{ [1, 1, 2]|unique|list }}
{{ rows|selectattr('v', 'equalto', 1)|list }}{{ rows|rejectattr('v', 'gt', 1)|map(attribute='k')|list }}{{ l|select('odd')|list }}{{ l|reject('equalto', 1)|list }}{{ rows|sort(attribute='v')|map(attribute='k')|list }}
{{ rows|groupby('k')|length }}{% for g in rows|groupby('v') %}{{ g.grouper }}{{ g.list|length }}{% endfor %}{{ l|batch(2)|list }}{{ 'a b'|wordcount }}
{{ s|upper }}{{ s|lower }}{{ s|title }}{{ s|capitalize }}{{ s|replace('l', 'x') }}{{ '5'|int + 1 }}{{ 'x'|int(9) }}{{ '1.5'|float }}{{ n|string ~ 'x' }}{{ -3|abs }}{{ 2.567|round(1) }}{{ 2.5|round|int }}
{{ 'a\nb\n\nc'|indent(2) }}|{{ 'a\nb'|indent(4, true) }}|{{ 'a\nb\n\nc'|indent(2, blank=true) }}|{{ '<a>&"\''|escape }}{{ '<a>'|e }}{{ 'x'|safe }}{{ 'a b&c'|urlencode }}
{{ 7 // 2 }}{{ -7 // 2 }}{{ 7 % 3 }}{{ -7 % 3 }}{{ 2 ** 10 }}{{ 7 / 2 }}{{ 'ab' * 2 }}{{ [1] * 2 }}{{ [1] + [2] }}{{ 1 ~ 2 }}{{ 'a' + 'b' }}{{ 10 / 5 }}
{{ 1 < 2 < 3 }}{{ 1 == 1.0 }}{{ 'a' < 'b' }}{{ true and 'x' }}{{ e or 'y' }}{{ 'a' if n > 5 else 'b' }}{{ 'a' if n < 5 }}{{ not e }}{{ 0 or [] or 'z' }}
{{ (1, 2) }}{{ (1,) }}{{ ('a', 'b')|tojson }}{{ {'k': (1, 2)} }}{{ range(3)|list }}{{ range(5, 1, -2)|list }}{{ [1, 2, 3][range(3)|length - 1] }}
{%- raw %}{{ raw }}{% if %}{% endraw -%} x {# comment {{ }} #} y
  {%- if true %}  a  {%- endif %}  b
  {% if true +%}
 keep
  {% endif %}
{% generation %}gen {{ n }}{% endgeneration %}|{%- generation -%} x {%- endgeneration -%}
{{ strftime_now('%d %b %Y') }} {{ strftime_now('%Y-%m-%d %H:%M:%S') }} {{ strftime_now('%A %B %j %y %p %I') }}
{{ raise_exception('stop: ' ~ n) }}
{{ none + 'x' }}
{{ undefined_thing.attr }}
{{ undefined_thing + 'x' }}
{{ d.missing.deep }}
{{ l.append(1) }}
{{ d.update({'x': 1}) }}
{{ 'a' + 1 }}
{{ l.nosuch() }}
{{ 1 / 0 }}
{{ l[10] }}|{{ l[10] is defined }}|{{ s[100] }}
{{ {'a': 1}.a }}{{ {'a': {'b': 2}}['a']['b'] }}{{ d['a'][1] }}{{ d.a.1 }}
{{ messages[0].role }}{{ messages[0]['content'] }}{{ messages[-1].content }}{{ messages|length }}{{ messages[1:]|length }}{{ (messages|last).role }}
{% set loop_messages = messages[1:] if messages[0].role == 'system' else messages %}{{ loop_messages|length }}{{ messages|selectattr('role', 'in', ['user'])|list|length }}
{% with x = 5 %}{{ x }}{% endwith %}{% filter upper %}abc{% endfilter %}{{ dict(a=1, b=2) }}{{ 'a,b'.split(',')|last }}{{ '%d' % 3.7 }}
{{ [['k', 1]]|list }}{{ "a" "b" }}{{ 'a\tb\\n\'' }}{{ "\u00e9" }}{{ ['a\'b', "c\"d", 'e\nf', 'é', '\x01'] }}{{ 1_000 }}{{ 0x1F }}
{{ nested|sum(start=[]) }}{{ nested|map('first')|list }}{{ ['A', 'b']|map('lower')|join }}{{ l|map('string')|join('+') }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{% set j = joiner(',') %}{{ j() }}x{{ j() }}
{% for a, b in [[1, 2], [3, 4]] %}{{ a }}-{{ b }}{{ loop.cycle('x', 'y') }}{{ loop.changed(a) }}{{ loop.depth }}{% endfor %}
{% if messages is defined and messages %}ok{% elif false %}no{% else %}else{% endif %}{{ '' if none is none else 'x' }}{{ loop is defined }}
{{ 'text' is string and s is not mapping }}{{ s is lower }}{{ 'abc' is upper }}{{ l|tojson|length }}{{ d|length }}{{ d|list }}{{ s|list|length }}
"""


def compare(ours, env, compare_one, failures):
    sources = SOURCES.strip("\n").split("\n")
    # The lines of the white-space example belong together.
    first = next(i for i, s in enumerate(sources) if s.startswith("  {%- if true %}"))
    sources[first:first + 4] = ["\n".join(sources[first:first + 4])]
    done = 0
    for i, source in enumerate(sources):
        d, _, _ = compare_one(ours, f"extra {i} {source[:60]!r}", source, env, [("", VARIABLES)], failures)
        done += d
    return done
