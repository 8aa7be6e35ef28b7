# On top of an image: packages that were asked for, in a folder that only the kernel looks into. Built without a network.
ARG IMAGE
FROM ${IMAGE} AS build
LABEL codeact.stage=build
USER 0:0
COPY requirements.lock /build/
COPY wheels /build/wheels
RUN python -m pip install --quiet --prefix /opt/added --no-index --find-links /build/wheels --require-hashes --no-deps \
        --ignore-installed --no-compile --no-cache-dir --no-warn-script-location --disable-pip-version-check \
        --root-user-action ignore --requirement /build/requirements.lock \
    && { python -m compileall -qq -j 0 --invalidation-mode unchecked-hash /opt/added || true; }

FROM ${IMAGE}
COPY --from=build /opt/added /opt/added
