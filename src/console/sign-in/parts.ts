import { type Html, html } from '../../platform/pages/html.ts'
import { shownCode } from '../session/secret.ts'

/** A button that asks for a passkey; the answer goes back as the field `answer` of the form around it. */
export const passkeyButton = (options: unknown, label: string, look: 'first' | 'second' = 'first'): Html =>
  html`<fbx-passkey data-options="${JSON.stringify(options)}"><input type="hidden" name="answer" value="">
<button type="button" class="${look}" hidden>${label}</button>
<noscript><p class="hint">Passkeys need script in this browser.</p></noscript>
<p class="hint" role="status"></p></fbx-passkey>`

/** A code in large digits. */
export const codeText = (code: string): Html => html`<p class="figure"><code>${shownCode(code)}</code></p>`
