/*
 * Colours SiddhiQL in JupyterLab: .siddhi files, cells that begin with %%siddhi, and texts of apps in Python cells.
 * And saves with a notebook what its panels show: their still forms (see spdist/panels/outputs.py) are brought up to date
 * under display ids, which JupyterLab forgets when the page is loaded again.
 *
 * This is a federated extension as JupyterLab loads it: a container with `init` and `get`. It is written by hand and
 * needs no build: whatever it uses it takes out of the modules that JupyterLab shares.
 */
(() => {
  'use strict';

  const NAME = 'spdist-siddhiql';
  const MIME = 'text/x-siddhiql';

  // The words of spdist/language/parsing/grammar.lark; a test compares the two.
  const words = text => new Set(text.split(' '));
  const TYPES = words('bool double float int long object string');
  const CONSTANTS = words('false null true');
  const LOGIC = words('and in is not or');
  const KEYWORDS = words(
    'aggregate aggregation all as asc at begin by current day days define delete desc end events every expired first ' +
      'for from full function group having hour hours inner insert into join last left limit millisec millisecond ' +
      'milliseconds min minute minutes month months of offset on order outer output partition per return right sec ' +
      'second seconds select set snapshot stream table trigger unidirectional update week weeks window with within ' +
      'year years'
  );
  // What may stand before a bracket and is no function all the same; as in spdist/language/lexer.py.
  const BEFORE_BRACKETS = words(
    'and as by every from having in join limit not of offset on or per select set with within'
  );

  // JupyterLab's themes have no colour for types; this is that of Python's own names, such as int and print.
  const BUILTIN = 'variableName.standard';

  const IS_CELL = /^\s*%%siddhi(?!\S)/;
  // Texts in three quotes, and what hardly any of them begins with but an app.
  const IN_QUOTES = /("""|''')([\s\S]*?)\1/g;
  const IS_APP = /^\s*(?:--[^\n]*\s+)*(?:@app\s*:|@source\s*\(|@sink\s*\(|define\s+(?:stream|table|trigger|window)\s)/i;
  const LONGEST = 100000;

  // --- the mode: one call of `token` reads one token, and says which kind it is

  const mode = {
    name: 'siddhiql',
    startState: () => ({ inside: null, depth: 0 }),
    copyState: state => ({ ...state }),
    languageData: {
      commentTokens: { line: '--', block: { open: '/*', close: '*/' } },
      closeBrackets: { brackets: ['(', '[', '{', "'", '"', '`'] }
    },
    token(stream, state) {
      if (state.inside) return rest(stream, state);
      if (stream.sol() && stream.match(/^\s*%%\S.*/)) return 'meta';
      if (stream.eatSpace()) return null;
      if (stream.match(/^--.*/)) return 'comment';
      if (stream.match('/*')) return begin(stream, state, 'comment');
      if (stream.match('"""')) return begin(stream, state, 'string');
      if (stream.match('{')) return (state.depth = 1), (state.inside = 'script'), 'brace';
      if (stream.match(/^(?:"[^"]*"?|'[^']*'?)/)) return 'string';
      if (stream.match(/^\$\{[^}\s]*\}?/)) return 'variableName.special';
      if (stream.match(/^@\s*(?:[a-z_]\w*(?:\s*:\s*[a-z_]\w*)?)?/i)) return 'meta';
      if (stream.match(/^(?:\d+(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?(?:[fdl](?!\w))?/i)) return 'number';
      if (stream.match(/^`[^`]*`?/)) return 'variableName';
      const word = stream.match(/^[a-z_]\w*/i);
      if (word) return kindOfWord(stream, word[0].toLowerCase());
      if (stream.match(/^(?:->|\.\.\.|==|!=|<=|>=|[=<>+\-*/%#!?:])/)) return 'operator';
      return stream.next().match(/[()[\]},;.]/) ? 'punctuation' : 'invalid';
    }
  };

  function begin(stream, state, inside) {
    state.inside = inside;
    return rest(stream, state);
  }

  // What goes on over lines: a comment, a text in three quotes, the body of a function with its braces.
  function rest(stream, state) {
    if (state.inside === 'script') {
      if (stream.match(/^(?:"[^"]*"|'[^']*')/)) return 'string';
      const sign = stream.next();
      if (sign === '{') state.depth += 1;
      if (sign === '}' && --state.depth === 0) state.inside = null;
      return /[{}]/.test(sign) ? 'brace' : 'variableName.special';
    }
    const end = state.inside === 'comment' ? '*/' : '"""';
    const kind = state.inside;
    if (stream.skipTo(end)) {
      stream.match(end);
      state.inside = null;
    } else {
      stream.skipToEnd();
    }
    return kind;
  }

  // Words are keywords only where the grammar takes them; this leaves out where they surely are names.
  function kindOfWord(stream, word) {
    if (stream.match(/^\s*:/, false)) return 'namespace';
    const said = stream.string.slice(0, stream.start).trimEnd();
    const before = said.slice(-1);
    if (/\b(?:stream|table|window)$/i.test(said)) return 'variableName';
    if (stream.match(/^\s*\(/, false) && !BEFORE_BRACKETS.has(word)) return BUILTIN;
    const next = stream.match(/^\s+([a-z]+)\b/i, false);
    const defined = (before === '(' || before === ',') && next && TYPES.has(next[1].toLowerCase());
    if (word === 'window' && before === '#') return 'keyword';
    if (defined || before === '.' || stream.match(/^\s*\.(?!\.)/, false)) return 'variableName';
    if (TYPES.has(word)) return BUILTIN;
    if (CONSTANTS.has(word)) return 'atom';
    return LOGIC.has(word) ? 'operatorKeyword' : KEYWORDS.has(word) ? 'keyword' : 'variableName';
  }

  // --- what JupyterLab is given

  function plugin(modules) {
    const { codemirror, language } = modules;
    const support = new language.LanguageSupport(language.StreamLanguage.define(mode));
    return {
      id: `${NAME}:plugin`,
      description: 'Colours SiddhiQL.',
      autoStart: true,
      requires: [codemirror.IEditorLanguageRegistry, codemirror.IEditorExtensionRegistry],
      activate: (app, languages, extensions) => {
        const known = { name: 'siddhiql', displayName: 'SiddhiQL' };
        languages.addLanguage({ ...known, mime: MIME, extensions: ['siddhi'], support, load: async () => support });
        app.docRegistry.addFileType({
          ...known,
          extensions: ['.siddhi'],
          mimeTypes: [MIME],
          contentType: 'file',
          fileFormat: 'text'
        });
        extensions.addExtension({
          name: NAME,
          factory: options =>
            codemirror.EditorExtensionRegistry.createImmutableExtension([
              cells(support, modules.state, options.model.sharedModel.getSource()),
              appsInPython(support, modules)
            ])
        });
      }
    };
  }

  // In a cell that begins with %%siddhi our language comes before the notebook's; it is looked at with each change, so
  // that nothing has to be told when notebooks and kernels set the language of their cells again.
  function cells(support, { Compartment, EditorState, Prec }, source) {
    const place = new Compartment();
    const languageOf = text => (IS_CELL.test(text) ? Prec.highest(support) : []);
    return [
      place.of(languageOf(source)),
      EditorState.transactionExtender.of(change => {
        if (!change.docChanged) return null;
        const wanted = languageOf(change.newDoc.sliceString(0, 200));
        const same = Array.isArray(wanted) === Array.isArray(place.get(change.startState));
        return same ? null : { effects: place.reconfigure(wanted) };
      })
    ];
  }

  // Marks within texts in three quotes that are apps; the colour of the text itself stays behind them.
  function appsInPython(support, { codemirror, language, state, view, highlight }) {
    const marks = editor => {
      const found = new state.RangeSetBuilder();
      const text = editor.state.doc.length <= LONGEST ? editor.state.doc.toString() : '';
      if (editor.state.facet(language.language)?.name === 'siddhiql') return found.finish();
      for (const quotes of text.matchAll(IN_QUOTES)) {
        if (!IS_APP.test(quotes[2])) continue;
        const from = quotes.index + 3;
        const tree = support.language.parser.parse(quotes[2]);
        highlight.highlightTree(tree, codemirror.jupyterHighlightStyle, (start, end, classes) =>
          found.add(from + start, from + end, view.Decoration.mark({ class: classes }))
        );
      }
      return found.finish();
    };
    const plugin = view.ViewPlugin.fromClass(
      class {
        constructor(editor) {
          this.marks = marks(editor);
        }
        update(update) {
          if (update.docChanged) this.marks = marks(update.view);
        }
      },
      { decorations: plugin => plugin.marks }
    );
    return state.Prec.highest(plugin); // the marks of higher precedence are the inner ones, and their colours count
  }

  // --- panels: each time a notebook is saved, the still form of a panel becomes what its widget shows

  const MARK = /spdist-still-(\w+)">/;

  const panels = {
    id: `${NAME}:panels`,
    description: 'Saves with a notebook what its panels show.',
    autoStart: true,
    activate: app => {
      app.docRegistry.addWidgetExtension('Notebook', {
        createNew: (notebook, context) => {
          const save = (_, state) => state === 'started' && keepPanels(notebook);
          context.saveState.connect(save);
          return { isDisposed: false, dispose: () => context.saveState.disconnect(save) };
        }
      });
    }
  };

  function keepPanels(notebook) {
    for (const { model } of notebook.content.widgets) {
      for (let at = 0; at < (model.outputs?.length ?? 0); at++) {
        const output = model.outputs.get(at);
        const html = [output.data['text/html'] ?? ''].flat().join('');
        const mark = MARK.exec(html);
        const shown = mark && notebook.node.querySelector(`.spdist-live-${mark[1]} > :last-child .widget-html-content`);
        if (!shown) continue;
        const now = `${html.slice(0, mark.index + mark[0].length)}${shown.innerHTML}</div>`;
        // The text is that of before: better none.
        if (now !== html) output.setData({ data: { 'text/html': now } });
      }
    }
  }

  // --- the container

  let shared = {};

  // The newest of the versions of a module that are shared; nearly always there is one.
  async function load(name) {
    const versions = shared[name];
    if (!versions) throw new Error(`${NAME}: JupyterLab shares no ${name}`);
    const sorted = Object.keys(versions).sort((one, two) => one.localeCompare(two, undefined, { numeric: true }));
    return (await versions[sorted.pop()].get())();
  }

  (window._JUPYTERLAB = window._JUPYTERLAB || {})[NAME] = {
    init: scope => {
      shared = scope;
    },
    get: async () => {
      const modules = {
        codemirror: await load('@jupyterlab/codemirror'),
        language: await load('@codemirror/language'),
        state: await load('@codemirror/state'),
        view: await load('@codemirror/view'),
        highlight: await load('@lezer/highlight')
      };
      return () => ({ __esModule: true, default: [plugin(modules), panels] });
    }
  };
})();
