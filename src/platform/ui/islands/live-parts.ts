/**
 * Replaces the parts of a page with `data-live` by those of the same id in a fresh copy of the page, and the commands
 * of the page. A form with
 * `data-quotes` starts this while the user types. A part with `data-runs` starts it every two seconds, as long as it has
 * that attribute. Without script, the form's button and a link have the same effect.
 *
 * From a change of the form until the answer, the parts do not match the fields. Meanwhile the form cannot be sent,
 * except by a button with `formmethod="get"`, which changes nothing. A form that counts once (it has a field `form`)
 * can be sent once: its parts do not change until the next page arrives. If that page does not arrive because the user
 * pressed Stop, the form can be sent again, with the same key. The service may have processed the first submission, and
 * processes a key once.
 */
const waitMs = 250
const everyMs = 2_000

const focusable = 'a[href], button, input:not([type=hidden]), select, textarea, [tabindex]'

/**
 * Replaces an old part by a fresh one. The focus moves to the element with the same id, else to the one at the same
 * index.
 */
const replacePart = (old: Element, replacement: Element): void => {
  const focused = document.activeElement
  const focusIndex = old.contains(focused) ? [...old.querySelectorAll(focusable)].indexOf(focused!) : -1
  old.replaceWith(replacement)
  if (focusIndex === -1) return
  const byId = focused!.id === '' ? null : replacement.querySelector(`#${CSS.escape(focused!.id)}`)
  const next = byId ?? replacement.querySelectorAll(focusable)[focusIndex]
  if (next instanceof HTMLElement) next.focus({ preventScroll: true })
}

class LiveParts extends HTMLElement {
  #timer = 0

  connectedCallback(): void {
    const form = this.querySelector<HTMLFormElement>('form[data-quotes]')
    let pendingRequest: XMLHttpRequest | null = null
    let pending = false
    let isSent = false
    /** The key of a form whose submission was stopped. */
    let stoppedKey: string | null = null

    const setBusy = (busy: boolean): void => {
      if (busy) this.setAttribute('aria-busy', 'true')
      else this.removeAttribute('aria-busy')
    }
    const showState = (): void => {
      setBusy(pending || isSent)
      // `disabled` would remove the focus, and Tab would skip the button.
      for (const button of form?.querySelectorAll('button') ?? [])
        if ((pending || isSent) && button.formMethod !== 'get') button.setAttribute('aria-disabled', 'true')
        else button.removeAttribute('aria-disabled')
    }
    const setPending = (value: boolean): void => {
      pending = value
      showState()
    }
    /** The key field of a form that counts once; null for any other form. */
    const keyField = (): HTMLInputElement | null => {
      const field = form?.elements.namedItem('form')
      return field instanceof HTMLInputElement ? field : null
    }
    /** Returns whether the page still has the parts: after the end of a session it is another page. */
    const exchange = (page: Document): boolean => {
      let found = false
      for (const old of this.querySelectorAll('[data-live]')) {
        const replacement = page.getElementById(old.id)
        if (!replacement) continue
        found = true
        replacePart(old, document.importNode(replacement, true))
      }
      const [commands, freshCommands] = [document, page].map((each) => each.querySelector('#equivalents pre'))
      if (commands && freshCommands) commands.textContent = freshCommands.textContent
      const key = keyField()
      if (key && stoppedKey !== null) key.value = stoppedKey
      return found
    }
    /**
     * @param onEnd receives whether to fetch again: not after an answer without the parts, unless its status is 429 or
     *   higher
     */
    const ask = (url: string, onEnd: (shouldRetry: boolean) => void): void => {
      const request = new XMLHttpRequest()
      pendingRequest = request
      request.open('GET', url)
      request.responseType = 'document'
      // Fields that cannot be priced are answered 400, with parts that show the problem.
      request.onload = () => {
        const found = request.responseXML !== null && exchange(request.responseXML)
        onEnd(found || request.status >= 429)
      }
      request.onerror = () => onEnd(true)
      request.send()
    }
    const after = (ms: number, work: () => void): void => {
      clearTimeout(this.#timer)
      this.#timer = window.setTimeout(work, ms)
    }
    form?.addEventListener('input', () => {
      if (isSent) return
      // An answer for earlier values of the fields must not be shown for the current ones.
      pendingRequest?.abort()
      setPending(true)
      after(waitMs, () => {
        const query = new URLSearchParams(
          [...new FormData(form)].map(([name, value]) => [name, String(value)]),
        )
        // After a failure the form can be sent as without script: the service refuses a price that differs from the
        // shown one.
        ask(`${form.action}?${query}`, () => setPending(false))
      })
    })
    form?.addEventListener('submit', (event) => {
      const { submitter } = event
      const reads = submitter instanceof HTMLButtonElement && submitter.formMethod === 'get'
      if (reads) return
      if (pending || isSent) return event.preventDefault()
      isSent = keyField() !== null
      showState()
    })
    // The user pressed Stop during the submission. Browsers from before 2026 do not report that.
    window.navigation?.addEventListener('navigateerror', () => {
      if (!isSent) return
      isSent = false
      stoppedKey = keyField()?.value ?? null
      showState()
    })
    // Back may show this page in its last state without loading it. The submission has ended.
    window.addEventListener('pageshow', ({ persisted }) => {
      if (!persisted) return
      isSent = false
      stoppedKey = null
      showState()
    })
    const refreshRuns = (): void => {
      if (this.querySelector('[data-runs]'))
        after(everyMs, () => {
          setBusy(true)
          ask(location.href, (shouldRetry) => {
            setBusy(false)
            if (shouldRetry) refreshRuns()
          })
        })
    }
    refreshRuns()
  }

  disconnectedCallback(): void {
    clearTimeout(this.#timer)
  }
}

customElements.define('live-parts', LiveParts)
