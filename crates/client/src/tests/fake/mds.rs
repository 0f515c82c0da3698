//! The operations of the MDS in memory: names, attributes, opens, layouts, and I/O on behalf of clients.

use super::*;

pub(super) fn perform_mds(
    s: &mut State,
    cx: &mut Compound<'_, ()>,
    op: OpNum,
    args: &mut OpReader<'_>,
    reply: &mut ReplyWriter<OpNum>,
) -> Done {
    if op == OpNum::GetDeviceInfo {
        return device(s, args, reply);
    }
    let id = id_of(cx.fh()?)?;
    match op {
        OpNum::Lookup => {
            let a: LookupArgs<'_> = args.args().map_err(bad)?;
            let found = s.find(id, a.name.0)?;
            cx.set_fh(fh_of(found));
            let _ = reply.result(&LookupRes {});
        }
        OpNum::GetAttr => {
            let a: GetAttrArgs = args.args().map_err(bad)?;
            let thresholds = s.thresholds;
            let attrs = attrs(s.inode(id)?, id, thresholds);
            let of = FattrOf {
                mask: &a.attr_request,
                attrs: &attrs,
            };
            let mark = reply.begin_op(op);
            xdr::Encode::encode(&of, reply.encoder());
            reply.end_op(mark, NfsStatus::Ok);
        }
        OpNum::SetAttr => {
            let a: SetAttrArgs<'_> = args.args().map_err(bad)?;
            let set = a.attrs.attrs().map_err(|e| e.status())?;
            let inode = s.inode(id)?;
            inode.mode = set.mode.unwrap_or(inode.mode);
            inode.change += 1;
            if let Some(size) = set.size {
                inode.size = size;
                for ((_, of), object) in &mut s.objects {
                    if *of == id {
                        object.cached.truncate(usize::try_from(size).unwrap());
                        object.durable.truncate(usize::try_from(size).unwrap());
                    }
                }
            }
            let _ = reply.result(&SetAttrRes {
                status: NfsStatus::Ok,
                attrsset: a.attrs.mask,
            });
        }
        OpNum::Lock | OpNum::LockT | OpNum::LockU => {
            return super::locks::lock_op(s, cx.client()?, id, op, args, reply);
        }
        OpNum::Open | OpNum::Close => return open_close(s, cx, id, op, args, reply),
        OpNum::DelegReturn => {
            let a: DelegReturnArgs = args.args().map_err(bad)?;
            if !s.delegations.remove(&a.stateid.other) {
                return Err(NfsStatus::BadStateid);
            }
            let _ = reply.result(&DelegReturnRes {});
        }
        OpNum::ReadDir => return readdir(s, id, args, reply),
        OpNum::LayoutGet | OpNum::LayoutCommit | OpNum::LayoutReturn => {
            return layout_op(s, cx, id, op, args, reply);
        }
        OpNum::Read | OpNum::Write | OpNum::Commit => return io_op(s, cx, id, op, args, reply),
        _ => return name_op(s, cx, id, op, args, reply),
    }
    Ok(())
}

fn attrs(inode: &Inode, id: u64, thresholds: Option<Thresholds>) -> Attrs {
    Attrs {
        file_type: Some(inode.file_type),
        mode: Some(inode.mode),
        size: Some(inode.size),
        change: Some(inode.change),
        numlinks: Some(inode.links),
        filehandle: Some(fh_of(id)),
        fileid: Some(id),
        lease_time_s: Some(30),
        mdsthreshold: thresholds.map(|t| MdsThreshold {
            items: List(vec![t.item(nfs4::layout::LAYOUT_NFSV4_1_FILES)]),
        }),
        ..Attrs::default()
    }
}

fn open_close(
    s: &mut State,
    cx: &mut Compound<'_, ()>,
    id: u64,
    op: OpNum,
    args: &mut OpReader<'_>,
    reply: &mut ReplyWriter<OpNum>,
) -> Done {
    if op == OpNum::Close {
        let a: CloseArgs = args.args().map_err(bad)?;
        s.check_open(a.open_stateid, id)?;
        s.opens.remove(&a.open_stateid.other);
        let _ = reply.result(&CloseRes {
            open_stateid: Stateid::INVALID,
        });
        return Ok(());
    }
    let a: OpenArgs<'_> = args.args().map_err(bad)?;
    let file = match a.claim {
        OpenClaim::Null(name) => match (s.find(id, name.0), &a.how) {
            (Err(NfsStatus::NoEnt), OpenHow::Create(_)) => s.make(id, name.0, FileType::Reg)?,
            (Ok(_), OpenHow::Create(CreateHow::Guarded(_))) => return Err(NfsStatus::Exist),
            (found, _) => found?,
        },
        OpenClaim::Previous(_) => {
            s.reclaims += 1;
            id
        }
        OpenClaim::Fh => id,
        _ => return Err(NfsStatus::NotSupp),
    };
    match s.inode(file)?.file_type {
        FileType::Reg => {}
        FileType::Lnk => return Err(NfsStatus::Symlink),
        FileType::Dir => return Err(NfsStatus::IsDir),
        _ => return Err(NfsStatus::WrongType),
    }
    let stateid = s.unique(1);
    s.opens.insert(stateid.other, file);
    cx.set_fh(fh_of(file));
    let delegation = if s.delegates {
        let stateid = s.unique(4);
        s.delegations.insert(stateid.other);
        Delegation::Read(ReadDelegation {
            stateid,
            recall: false,
            permissions: Ace {
                ace_type: 0,
                flag: 0,
                access_mask: 0,
                who: Owner::default(),
            },
        })
    } else {
        Delegation::None
    };
    let _ = reply.result(&OpenRes {
        stateid,
        cinfo: ChangeInfo::default(),
        rflags: 0,
        attrset: Bitmap::EMPTY,
        delegation,
    });
    Ok(())
}

fn readdir(
    s: &mut State,
    id: u64,
    args: &mut OpReader<'_>,
    reply: &mut ReplyWriter<OpNum>,
) -> Done {
    let a: ReadDirArgs = args.args().map_err(bad)?;
    let entries = s.dir(id)?.entries.clone();
    let mark = reply.begin_op(OpNum::ReadDir);
    let skip = usize::try_from(a.cookie).unwrap();
    // Small pages, so that a few names make several.
    let bytes = a.maxcount.min(400);
    let mut w = ReadDirWriter::new(reply.encoder(), Verifier::default(), bytes, 0).unwrap();
    let mut eof = true;
    for (at, (name, child)) in entries.iter().enumerate().skip(skip) {
        let attrs = attrs(s.inode(*child)?, *child, None);
        if !w.push(at as u64 + 1, name, &a.attr_request, &attrs) {
            eof = false;
            break;
        }
    }
    w.finish(eof);
    reply.end_op(mark, NfsStatus::Ok);
    Ok(())
}

/// The address of a data server on one of its networks.
fn address(side: u8, ds: u32) -> NetAddr {
    NetAddr {
        netid: OpaqueBuf(b"tcp".to_vec()),
        uaddr: OpaqueBuf(format!("10.0.{side}.{ds}.8.1").into_bytes()),
    }
}

fn device(s: &State, args: &mut OpReader<'_>, reply: &mut ReplyWriter<OpNum>) -> Done {
    let _: GetDeviceInfoArgs = args.args().map_err(bad)?;
    let count = u32::try_from(s.verifiers.len()).unwrap();
    let body = xdr::encode_to_vec(&FileLayoutDsAddr {
        stripe_indices: List((0..count).collect()),
        multipath_ds_list: List(
            (0..count)
                .map(|n| List((0..s.addresses_each).map(|side| address(side, n)).collect()))
                .collect(),
        ),
    });
    let _ = reply.result(&GetDeviceInfoRes::Ok(DeviceInfo {
        device_addr: DeviceAddr {
            layout_type: 1,
            body: Opaque(&body),
        },
        notification: Bitmap::EMPTY,
    }));
    Ok(())
}

fn name_op(
    s: &mut State,
    cx: &mut Compound<'_, ()>,
    id: u64,
    op: OpNum,
    args: &mut OpReader<'_>,
    reply: &mut ReplyWriter<OpNum>,
) -> Done {
    match op {
        OpNum::Create => {
            let a: CreateArgs<'_> = args.args().map_err(bad)?;
            let file_type = a.object_type.file_type().ok_or(NfsStatus::BadType)?;
            let new = s.make(id, a.name.0, file_type)?;
            if let CreateType::Lnk(text) = a.object_type {
                s.inode(new)?.target = text.0.to_vec();
            }
            cx.set_fh(fh_of(new));
            let _ = reply.result(&CreateRes {
                cinfo: ChangeInfo::default(),
                attrset: Bitmap::EMPTY,
            });
        }
        OpNum::Remove => {
            let a: RemoveArgs<'_> = args.args().map_err(bad)?;
            let found = s.find(id, a.target.0)?;
            if !s.inode(found)?.entries.is_empty() {
                return Err(NfsStatus::NotEmpty);
            }
            s.dir(id)?.entries.remove(a.target.0);
            let _ = reply.result(&RemoveRes {
                cinfo: ChangeInfo::default(),
            });
        }
        OpNum::Rename => {
            let a: RenameArgs<'_> = args.args().map_err(bad)?;
            let from = id_of(cx.saved()?)?;
            let found = s.find(from, a.old_name.0)?;
            s.dir(from)?.entries.remove(a.old_name.0);
            s.dir(id)?.entries.insert(a.new_name.0.to_vec(), found);
            let _ = reply.result(&RenameRes {
                source_cinfo: ChangeInfo::default(),
                target_cinfo: ChangeInfo::default(),
            });
        }
        OpNum::Link => {
            let a: LinkArgs<'_> = args.args().map_err(bad)?;
            let saved = id_of(cx.saved()?)?;
            s.inode(saved)?.links += 1;
            s.dir(id)?.entries.insert(a.new_name.0.to_vec(), saved);
            let _ = reply.result(&LinkRes {
                cinfo: ChangeInfo::default(),
            });
        }
        OpNum::ReadLink => {
            let target = s.inode(id)?.target.clone();
            let _ = reply.result(&ReadLinkRes {
                link: Opaque(&target),
            });
        }
        _ => return Err(NfsStatus::NotSupp),
    }
    Ok(())
}

fn layout_op(
    s: &mut State,
    cx: &mut Compound<'_, ()>,
    id: u64,
    op: OpNum,
    args: &mut OpReader<'_>,
    reply: &mut ReplyWriter<OpNum>,
) -> Done {
    let check_layout = |s: &State, stateid: Stateid| match s.layouts.get(&id) {
        Some((_, held)) if held.other == stateid.other => Ok(()),
        _ => Err(NfsStatus::BadStateid),
    };
    match op {
        OpNum::LayoutGet => {
            let a: LayoutGetArgs = args.args().map_err(bad)?;
            if s.no_layouts.contains(&id) {
                return Err(NfsStatus::LayoutUnavailable);
            }
            let mut stateid = match s.layouts.get(&id) {
                Some((_, held)) if held.other == a.stateid.other => *held,
                _ => {
                    s.check_open(a.stateid, id)?;
                    s.unique(3)
                }
            };
            stateid.seqid += 1;
            s.layouts.insert(id, (cx.client()?, stateid));
            let body = layout_body(id);
            let layout = Layout {
                offset: 0,
                length: LENGTH_TO_EOF,
                iomode: a.iomode,
                layout_type: 1,
                body: Opaque(&body),
            };
            let _ = reply.result(&LayoutGetRes::Ok(LayoutsGranted {
                return_on_close: true,
                stateid,
                layouts: List(vec![layout]),
            }));
        }
        OpNum::LayoutCommit => {
            let a: LayoutCommitArgs<'_> = args.args().map_err(bad)?;
            if s.refuse_layoutcommits > 0 {
                s.refuse_layoutcommits -= 1;
                s.layouts.remove(&id);
                return Err(NfsStatus::BadStateid);
            }
            check_layout(s, a.stateid)?;
            let inode = s.inode(id)?;
            inode.size = inode.size.max(a.last_write_offset.map_or(0, |o| o + 1));
            inode.change += 1;
            let _ = reply.result(&LayoutCommitRes { new_size: None });
        }
        OpNum::LayoutReturn => {
            let a: LayoutReturnArgs<'_> = args.args().map_err(bad)?;
            if let LayoutReturn::File(file) = a.what {
                check_layout(s, file.stateid)?;
                s.layouts.remove(&id);
            }
            s.layout_returns += 1;
            let _ = reply.result(&LayoutReturnRes { stateid: None });
        }
        _ => return Err(NfsStatus::NotSupp),
    }
    Ok(())
}

fn io_op(
    s: &mut State,
    cx: &mut Compound<'_, ()>,
    id: u64,
    op: OpNum,
    args: &mut OpReader<'_>,
    reply: &mut ReplyWriter<OpNum>,
) -> Done {
    match op {
        OpNum::Read => {
            let a: ReadArgs = args.args().map_err(bad)?;
            s.check_open(a.stateid, id)?;
            let size = s.inode(id)?.size;
            let end = size.min(a.offset + u64::from(a.count)).max(a.offset);
            let mut data = Vec::new();
            for at in a.offset..end {
                let ds = s.ds_of(at);
                data.push(
                    s.objects
                        .get(&(ds, id))
                        .and_then(|o| o.cached.get(usize::try_from(at).unwrap()).copied())
                        .unwrap_or(0),
                );
            }
            s.mds_bytes[0] += data.len() as u64;
            write_read(cx, reply, data, end >= size);
        }
        OpNum::Write => {
            let a: WriteArgs<'_> = args.args().map_err(bad)?;
            s.check_open(a.stateid, id)?;
            for (i, byte) in a.data.0.iter().enumerate() {
                let at = a.offset + i as u64;
                let ds = s.ds_of(at);
                s.write(ds, id, at, &[*byte]);
            }
            for ds in 0..s.verifiers.len() {
                s.commit(ds, id);
            }
            s.mds_bytes[1] += a.data.0.len() as u64;
            let inode = s.inode(id)?;
            inode.size = inode.size.max(a.offset + a.data.0.len() as u64);
            let _ = reply.result(&WriteRes {
                count: u32::try_from(a.data.0.len()).unwrap(),
                committed: StableHow::FileSync,
                write_verifier: Verifier::default(),
            });
        }
        OpNum::Commit => {
            let a: CommitArgs = args.args().map_err(bad)?;
            let _ = a;
            let committed = CommitRes {
                write_verifier: Verifier::default(),
            };
            return match answer(reply, Ok::<_, NfsStatus>(committed)) {
                NfsStatus::Ok => Ok(()),
                status => Err(status),
            };
        }
        _ => return Err(NfsStatus::NotSupp),
    }
    Ok(())
}

fn layout_body(id: u64) -> Vec<u8> {
    xdr::encode_to_vec(&FileLayout {
        device_id: DeviceId::default(),
        util: NflUtil::new(UNIT, 0).unwrap(),
        first_stripe_index: 0,
        pattern_offset: 0,
        file_handles: List(vec![fh_of(id)]),
    })
}
