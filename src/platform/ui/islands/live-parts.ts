/**
 * Replaces the parts of a page with `data-live` by those of the same id in a fresh copy of the page. A form with
 * `data-asks` starts this while somebody types. A part with `data-runs` starts it every two seconds, as long as it has
 * that attribute. Without script, the form's button and a link have the same effect.
 *
 * From a change of the form until the answer, the parts do not match the fields. Meanwhile the form cannot be sent,
 * except by a button with `formmethod="get"`, which changes nothing. A form that counts once (it has a field `form`)
 * can be sent once: its parts do not change until the next page arrives. If that page does not arrive because somebody
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
const replacePart = (old: Element, fresh: Element): void => {
  const focused = document.activeElement
  const place = old.contains(focused) ? [...old.querySelectorAll(focusable)].indexOf(focused!) : -1
  old.replaceWith(fresh)
  if (place === -1) return
  const byId = focused!.id === '' ? null : fresh.querySelector(`#${CSS.escape(focused!.id)}`)
  const next = byId ?? fresh.querySelectorAll(focusable)[place]
  if (next instanceof HTMLElement) next.focus({ preventScroll: true })
}

class LiveParts extends HTMLElement {
  #timer = 0

  connectedCallback(): void {
    const form = this.querySelector<HTMLFormElement>('form[data-asks]')
    let asked: XMLHttpRequest | null = null
    let pending = false
    let sent = false
    /** The key of a form whose submission was stopped. */
    let stoppedKey: string | null = null

    const setBusy = (busy: boolean): void => {
      if (busy) this.setAttribute('aria-busy', 'true')
      else this.removeAttribute('aria-busy')
    }
    const showState = (): void => {
      setBusy(pending || sent)
      // `disabled` would remove the focus, and Tab would skip the button.
      for (const button of form?.querySelectorAll('button') ?? [])
        if ((pending || sent) && button.formMethod !== 'get') button.setAttribute('aria-disabled', 'true')
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
        const fresh = page.getElementById(old.id)
        if (!fresh) continue
        found = true
        replacePart(old, document.importNode(fresh, true))
      }
      const key = keyField()
      if (key && stoppedKey !== null) key.value = stoppedKey
      return found
    }
    /**
     * @param then receives whether to fetch again: not after an answer without the parts, unless its status is 429 or
     *   higher
     */
    const ask = (url: string, then: (again: boolean) => void): void => {
      const request = new XMLHttpRequest()
      asked = request
      request.open('GET', url)
      request.responseType = 'document'
      // Fields that cannot be priced are answered 400, with parts that show the problem.
      request.onload = () => {
        const found = request.responseXML !== null && exchange(request.responseXML)
        then(found || request.status >= 429)
      }
      request.onerror = () => then(true)
      request.send()
    }
    const after = (ms: number, work: () => void): void => {
      clearTimeout(this.#timer)
      this.#timer = window.setTimeout(work, ms)
    }
    form?.addEventListener('input', () => {
      if (sent) return
      // An answer for earlier values of the fields must not be shown for the current ones.
      asked?.abort()
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
      if (pending || sent) return event.preventDefault()
      sent = keyField() !== null
      showState()
    })
    // Somebody pressed Stop during the submission. Browsers from before 2026 do not report that.
    window.navigation?.addEventListener('navigateerror', () => {
      if (!sent) return
      sent = false
      stoppedKey = keyField()?.value ?? null
      showState()
    })
    // Back may show this page in its last state without loading it. The submission has ended.
    window.addEventListener('pageshow', ({ persisted }) => {
      if (!persisted) return
      sent = false
      stoppedKey = null
      showState()
    })
    const follow = (): void => {
      if (this.querySelector('[data-runs]'))
        after(everyMs, () => {
          setBusy(true)
          ask(location.href, (again) => {
            setBusy(false)
            if (again) follow()
          })
        })
    }
    follow()
  }

  disconnectedCallback(): void {
    clearTimeout(this.#timer)
  }
}

customElements.define('live-parts', LiveParts)
